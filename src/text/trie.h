#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace heed::text {

/// Byte strings with a number each, for finding all that begin at a position of a text. Edges live
/// in one open-addressing table.
class Trie {
 public:
  Trie() : values_(1, -1), table_(64), mask_(63) {}

  void insert(std::string_view key, int32_t value) {
    uint32_t node = 0;
    for (const char c : key) {
      node = child_or_new(node, static_cast<unsigned char>(c));
    }
    values_[node] = value;
  }

  /// Calls fn(length, value) for every non-empty key that `text` begins with, shortest first.
  template <class Fn>
  void prefixes(std::string_view text, Fn&& fn) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) {
        return;
      }
      if (values_[node] >= 0) {
        fn(i + 1, values_[node]);
      }
    }
  }

  /// The longest key that `text` begins with; length 0 where there is none.
  struct Match {
    size_t length = 0;
    int32_t value = -1;
  };
  Match longest(std::string_view text) const {
    Match best;
    prefixes(text, [&](size_t length, int32_t value) { best = {length, value}; });
    return best;
  }

 private:
  struct Edge {
    uint64_t key = 0;  ///< (parent + 1) << 8 | byte; 0: free
    uint32_t child = 0;
  };

  static uint64_t key_of(uint32_t node, unsigned char byte) {
    return (static_cast<uint64_t>(node) + 1) << 8 | byte;
  }
  size_t slot_of(uint64_t key) const {
    size_t slot = (key * 0x9E3779B97F4A7C15u >> 24) & mask_;
    while (table_[slot].key != 0 && table_[slot].key != key) {
      slot = (slot + 1) & mask_;
    }
    return slot;
  }
  /// 0 where there is none: no edge leads to the root.
  uint32_t child(uint32_t node, unsigned char byte) const {
    return table_[slot_of(key_of(node, byte))].child;
  }
  uint32_t child_or_new(uint32_t node, unsigned char byte) {
    const uint64_t key = key_of(node, byte);
    size_t slot = slot_of(key);
    if (table_[slot].key == 0) {
      if (2 * (values_.size() + 1) > table_.size()) {
        grow();
        slot = slot_of(key);
      }
      table_[slot] = {key, static_cast<uint32_t>(values_.size())};
      values_.push_back(-1);
    }
    return table_[slot].child;
  }
  void grow() {
    std::vector<Edge> old(table_.size() * 2);
    old.swap(table_);
    mask_ = table_.size() - 1;
    for (const Edge& edge : old) {
      if (edge.key != 0) {
        table_[slot_of(edge.key)] = edge;
      }
    }
  }

  std::vector<int32_t> values_;  ///< by node; -1: no key ends here
  std::vector<Edge> table_;
  size_t mask_;
};

}  // namespace heed::text
