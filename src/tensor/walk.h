#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/parallel.h"
#include "heed/tensor.h"

namespace heed {

/// Visits the innermost rows of N strided operands over one shape: fn(offsets, steps, count), with
/// offsets in elements from each operand's first. Adjacent axes that all operands lay out alike are
/// joined first, so contiguous operands give long rows. Rows are processed in parallel.
template <size_t N, class Fn>
void walk_rows(const Shape& shape, std::array<const Shape*, N> strides, Fn&& fn) {
  constexpr int64_t kRow = 32768;  // a contiguous array is cut into rows of this length
  if (shape.numel() == 0) {
    return;
  }
  std::array<int64_t, Shape::kMaxRank + 1> dim{};
  std::array<std::array<int64_t, N>, Shape::kMaxRank + 1> step{};
  int axes = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) {
      continue;
    }
    bool joins = axes > 0;
    for (size_t n = 0; n < N && joins; ++n) {
      joins = step[static_cast<size_t>(axes - 1)][n] == (*strides[n])[axis] * shape[axis];
    }
    if (!joins) {
      ++axes;
      dim[static_cast<size_t>(axes - 1)] = 1;
    }
    const auto last = static_cast<size_t>(axes - 1);
    dim[last] *= shape[axis];
    for (size_t n = 0; n < N; ++n) {
      step[last][n] = (*strides[n])[axis];
    }
  }
  if (axes == 0) {
    fn(std::array<int64_t, N>{}, std::array<int64_t, N>{}, int64_t{1});
    return;
  }
  const auto last = static_cast<size_t>(axes - 1);
  const int64_t length = dim[last];
  const int64_t pieces = (length + kRow - 1) / kRow;
  int64_t rows = pieces;
  for (size_t axis = 0; axis < last; ++axis) {
    rows *= dim[axis];
  }
  const int64_t grain = std::max<int64_t>(1, kRow / length);
  parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
    // Places of the first row by division; from there on by counting, which is much cheaper.
    std::array<int64_t, Shape::kMaxRank + 1> index{};
    std::array<int64_t, N> at{};
    int64_t rest = begin / pieces;
    for (size_t axis = last; axis-- > 0;) {
      index[axis] = rest % dim[axis];
      rest /= dim[axis];
      for (size_t n = 0; n < N; ++n) {
        at[n] += index[axis] * step[axis][n];
      }
    }
    int64_t piece = begin % pieces;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t start = piece * kRow;
      std::array<int64_t, N> from = at;
      for (size_t n = 0; n < N; ++n) {
        from[n] += start * step[last][n];
      }
      fn(from, step[last], std::min(kRow, length - start));
      if (++piece < pieces) {
        continue;
      }
      piece = 0;
      for (size_t axis = last; axis-- > 0;) {
        const bool carries = ++index[axis] == dim[axis];
        for (size_t n = 0; n < N; ++n) {
          at[n] += carries ? -(dim[axis] - 1) * step[axis][n] : step[axis][n];
        }
        if (!carries) {
          break;
        }
        index[axis] = 0;
      }
    }
  });
}

}  // namespace heed
