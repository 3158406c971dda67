#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed {

/// Elements [begin, end) of a tensor belong to example `sample` of the whole batch.
struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t sample = 0;
};

/// Splits a tensor of `elements` elements in `rows` rows by example: `count` examples, the first of
/// which is example `first` of the whole batch. `starts` has the first row of each example and the
/// number of rows; where it is empty or belongs to other rows, the examples share the elements
/// evenly. One range where `count` is 0 or does not divide the tensor.
std::vector<SampleRange> sample_ranges(int64_t rows, int64_t elements, int64_t first, int64_t count,
                                       std::span<const int64_t> starts);

}  // namespace heed
