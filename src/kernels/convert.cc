#include "kernels/convert.h"

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Between types that are both computed in f32.
template <class To, class From>
void convert_range(To* to, const From* from, size_t count) {
  map(
      to, count, [](auto, auto v) HWY_ATTR { return v; }, from);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(convert_range)

template <class To, class From>
void convert(To* to, const From* from, int64_t count) {
  constexpr int64_t kTile = 16384;  // elements
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<Compute<To>, Compute<From>>) {
      HEED_CALL(convert_range, To, From)
      (to + begin, from + begin, static_cast<size_t>(end - begin));
    } else {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = narrow<To>(static_cast<double>(widen(from[i])));
      }
    }
  });
}

#define HEED_INSTANTIATE(T)                          \
  template void convert(T*, const float*, int64_t);  \
  template void convert(T*, const double*, int64_t); \
  template void convert(T*, const Half*, int64_t);   \
  template void convert(T*, const BFloat16*, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
