#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heed::text {

/// Finds a merge by its two parts. Open addressing, at most half full.
class PairTable {
 public:
  struct Entry {
    uint64_t key = ~uint64_t{0};
    uint32_t rank = 0;
    int32_t result = 0;
  };

  explicit PairTable(size_t count = 0) {
    size_t size = 16;
    while (size < 2 * count + 2) {
      size *= 2;
    }
    table_.resize(size);
    mask_ = size - 1;
  }
  /// The first of two equal pairs stays.
  void insert(int32_t left, int32_t right, uint32_t rank, int32_t result) {
    Entry& entry = table_[slot_of(key_of(left, right))];
    if (entry.key == ~uint64_t{0}) {
      entry = {key_of(left, right), rank, result};
    }
  }
  const Entry* find(int32_t left, int32_t right) const {
    const Entry& entry = table_[slot_of(key_of(left, right))];
    return entry.key == ~uint64_t{0} ? nullptr : &entry;
  }

 private:
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    size_t slot = (key * 0x9E3779B97F4A7C15u >> 30) & mask_;
    while (table_[slot].key != key && table_[slot].key != ~uint64_t{0}) {
      slot = (slot + 1) & mask_;
    }
    return slot;
  }
  std::vector<Entry> table_;
  size_t mask_;
};

}  // namespace heed::text
