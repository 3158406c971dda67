#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace heed::text {

/// Byte strings with a number each, for finding all that begin at a position of a text. The first
/// edge out of a node lies in the node; the others are in one open-addressing table.
class Trie {
 public:
  /// Longer keys are for the caller to refuse: one step per byte of the longest key is what every
  /// position of a text may cost.
  static constexpr size_t kLongestKey = 1280;

  Trie() : nodes_(1), table_(64), mask_(63) {}

  void insert(std::string_view key, int32_t value) {
    uint32_t node = 0;
    for (const char c : key) {
      node = child_or_new(node, static_cast<unsigned char>(c));
    }
    nodes_[node].value = value;
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
      if (nodes_[node].value >= 0) {
        fn(i + 1, nodes_[node].value);
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
  struct Node {
    int32_t value = -1;        ///< -1: no key ends here
    uint32_t first_child = 0;  ///< 0: a leaf, as no edge leads to the root
    unsigned char first_byte = 0;
    bool more = false;  ///< whether the table has further edges out of it
  };
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
  /// 0 where there is none.
  uint32_t child(uint32_t index, unsigned char byte) const {
    const Node& node = nodes_[index];
    if (node.first_byte == byte) {
      return node.first_child;
    }
    return node.more ? table_[slot_of(key_of(index, byte))].child : 0;
  }
  uint32_t child_or_new(uint32_t index, unsigned char byte) {
    if (const uint32_t known = child(index, byte); known != 0) {
      return known;
    }
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    Node& node = nodes_[index];
    if (node.first_child == 0) {
      node.first_byte = byte;
      node.first_child = fresh;
    } else {
      if (2 * ++edges_ > table_.size()) {
        grow();
      }
      node.more = true;
      const uint64_t key = key_of(index, byte);
      table_[slot_of(key)] = {key, fresh};
    }
    nodes_.emplace_back();
    return fresh;
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

  std::vector<Node> nodes_;
  std::vector<Edge> table_;
  size_t mask_;
  size_t edges_ = 0;  ///< in the table
};

}  // namespace heed::text
