#include "kernels/gather.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// out[j] = sum of dy[indices[i]][j] over i, in order.
template <class T>
void sum_rows_range(T* out, const T* dy, const int64_t* indices, size_t count, size_t width) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t j = 0; j < width; j += lanes) {
    const size_t rest = HWY_MIN(lanes, width - j);
    auto sum = hn::Zero(d);
    for (size_t i = 0; i < count; ++i) {
      sum = hn::Add(sum, load_upto(d, dy + static_cast<size_t>(indices[i]) * width + j, rest));
    }
    store_upto(sum, d, out + j, rest);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(sum_rows_range)

void gather_rows(void* out, const void* table, const int64_t* ids, int64_t count,
                 int64_t row_bytes) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(row_bytes, 1));
  parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(static_cast<char*>(out) + i * row_bytes,
                  static_cast<const char*>(table) + ids[i] * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
}

template <class T>
void sum_rows_by_id(T* out, const T* dy, const int64_t* ids, int64_t count, int64_t rows,
                    int64_t width) {
  // Indices in order of their id; equal ids stay in order of index.
  std::vector<int64_t> first(static_cast<size_t>(rows) + 1);
  for (int64_t i = 0; i < count; ++i) {
    ++first[static_cast<size_t>(ids[i]) + 1];
  }
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    first[row + 1] += first[row];
  }
  std::vector<int64_t> next(first.begin(), first.end() - 1);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    indices[static_cast<size_t>(next[static_cast<size_t>(ids[i])]++)] = i;
  }
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1));
  parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = first[static_cast<size_t>(row)];
      HEED_CALL(sum_rows_range, T)
      (out + row * width, dy, indices.data() + from,
       static_cast<size_t>(first[static_cast<size_t>(row) + 1] - from), static_cast<size_t>(width));
    }
  });
}

#define HEED_INSTANTIATE(T) \
  template void sum_rows_by_id(T*, const T*, const int64_t*, int64_t, int64_t, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
