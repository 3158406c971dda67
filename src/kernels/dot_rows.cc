#include "kernels/dot_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dot_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void dot_rows_f32(T* out, const T* rows, size_t count, size_t dim, const T* query) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = sum_of(
        Tag<T>(), dim, [](auto, auto a, auto b) HWY_ATTR { return hn::Mul(a, b); }, rows + i * dim,
        query);
  }
}

/// Sums of products of pairs: the order within a vector does not matter for integers.
template <class T>
void dot_rows_i8(int32_t* out, const T* rows, size_t count, size_t dim, const int16_t* query) {
  const hn::ScalableTag<int16_t> d16;
  const hn::ScalableTag<int32_t> d32;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const size_t lanes = hn::Lanes(d16);
  for (size_t i = 0; i < count; ++i) {
    const T* row = rows + i * dim;
    auto sum0 = hn::Zero(d32);
    auto sum1 = hn::Zero(d32);
    auto odd0 = hn::Zero(d32);
    auto odd1 = hn::Zero(d32);
    size_t j = 0;
    for (; j + 2 * lanes <= dim; j += 2 * lanes) {
      sum0 = hn::ReorderWidenMulAccumulate(d32, hn::PromoteTo(d16, hn::LoadU(d8, row + j)),
                                           hn::LoadU(d16, query + j), sum0, odd0);
      sum1 = hn::ReorderWidenMulAccumulate(d32, hn::PromoteTo(d16, hn::LoadU(d8, row + j + lanes)),
                                           hn::LoadU(d16, query + j + lanes), sum1, odd1);
    }
    for (; j + lanes <= dim; j += lanes) {
      sum0 = hn::ReorderWidenMulAccumulate(d32, hn::PromoteTo(d16, hn::LoadU(d8, row + j)),
                                           hn::LoadU(d16, query + j), sum0, odd0);
    }
    const auto all = hn::Add(hn::Add(sum0, odd0), hn::Add(sum1, odd1));
    int32_t total = hn::GetLane(hn::SumOfLanes(d32, all));
    for (; j < dim; ++j) {
      total += int32_t{row[j]} * query[j];
    }
    out[i] = total;
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(dot_rows_f32)
HEED_EXPORT(dot_rows_i8)

void dot_rows(float* out, const float* rows, int64_t count, int64_t dim, const float* query) {
  HEED_CALL(dot_rows_f32, float)
  (out, rows, static_cast<size_t>(count), static_cast<size_t>(dim), query);
}

void dot_rows(int32_t* out, const int8_t* rows, int64_t count, int64_t dim, const int16_t* query) {
  HEED_CALL(dot_rows_i8, int8_t)
  (out, rows, static_cast<size_t>(count), static_cast<size_t>(dim), query);
}

}  // namespace heed::kernels
#endif
