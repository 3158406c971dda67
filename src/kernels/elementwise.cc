#include "kernels/elementwise.h"

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void add_range(T* into, const T* x, size_t count) {
  map(into, count, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, into, x);
}

void add_f32(float* into, const float* x, size_t count) { add_range(into, x, count); }
void add_f64(double* into, const double* x, size_t count) { add_range(into, x, count); }
void add_f16(Half* into, const Half* x, size_t count) { add_range(into, x, count); }
void add_bf16(BFloat16* into, const BFloat16* x, size_t count) { add_range(into, x, count); }

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(add_f32);
HWY_EXPORT(add_f64);
HWY_EXPORT(add_f16);
HWY_EXPORT(add_bf16);

namespace {
constexpr int64_t kTile = 16384;  // elements: two arrays of f32 fit in L2 with room to spare
}

template <class T>
void add_inplace(T* into, const T* x, int64_t count) {
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(end - begin);
    if constexpr (std::is_same_v<T, float>) {
      HWY_DYNAMIC_DISPATCH(add_f32)(into + begin, x + begin, n);
    } else if constexpr (std::is_same_v<T, double>) {
      HWY_DYNAMIC_DISPATCH(add_f64)(into + begin, x + begin, n);
    } else if constexpr (std::is_same_v<T, Half>) {
      HWY_DYNAMIC_DISPATCH(add_f16)(into + begin, x + begin, n);
    } else {
      HWY_DYNAMIC_DISPATCH(add_bf16)(into + begin, x + begin, n);
    }
  });
}
template void add_inplace(float*, const float*, int64_t);
template void add_inplace(double*, const double*, int64_t);
template void add_inplace(Half*, const Half*, int64_t);
template void add_inplace(BFloat16*, const BFloat16*, int64_t);

}  // namespace heed::kernels
#endif
