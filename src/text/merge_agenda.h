#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/pair_table.h"

namespace heed::text {

/// A token while merging: its id and the bytes it covers.
struct Symbol {
  int32_t id;
  uint32_t length;
};

/// Merges long words in O(n log n) time. Positions wait in one bucket per rank, and a heap holds
/// the ranks that have any. A bucket mostly fills from left to right: those positions form a sorted
/// list, and only what comes out of order goes through a heap.
class MergeAgenda {
 public:
  void merge(std::vector<Symbol>& symbols, const PairTable& pairs);

 private:
  struct Bucket {
    std::vector<uint32_t> places;  ///< ascending
    size_t next = 0;
    std::vector<uint32_t> late;  ///< a min-heap of what came out of order
    bool waiting = false;        ///< its rank is in the heap
  };
  void add(const std::vector<Symbol>& symbols, uint32_t place, const PairTable& pairs);
  /// The leftmost position of the lowest rank; false when nothing is left.
  bool take(uint32_t& place, uint32_t& rank);

  std::vector<uint32_t> previous_, following_;
  std::vector<Bucket> buckets_;
  std::vector<uint32_t> heap_;
};

}  // namespace heed::text
