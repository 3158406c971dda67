#include "kernels/packed_weights.h"

#include <algorithm>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed_weights.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_bf16-inl.h"
#include "kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

void pack_weights_target(const Matrix& b, int64_t n, int64_t k, void* out) {
  parallel_for((n + kPackedColumns - 1) / kPackedColumns, [&](int64_t panel) {
    const int64_t column = panel * kPackedColumns;
    const int64_t width = std::min(kPackedColumns, n - column);
    if (b.type == Element::f32) {
      float* to = static_cast<float*>(out) + panel * k * kPackedColumns;
      if (width < kPackedColumns) {
        std::fill_n(to, k * kPackedColumns, 0.0f);
      }
      pack(b, 0, column, k, width, to, kPackedColumns);
      return;
    }
#if HEED_BF16_INSTRUCTIONS
    static_assert(columns<float>() == kPackedColumns);
    const int64_t steps = Bf16Pairs::steps(k);
    const Job<float> job(GemmProblem{.n = n, .k = k, .b = b});
    Bf16Pairs::pack_b(job, {.step = 0, .depth = steps, .first = column, .count = width},
                      static_cast<Bf16Pair*>(out) + panel * steps * kPackedColumns,
                      steps * kPackedColumns);
#endif
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(pack_weights_target);

bool reads_packed(Element a, Element b) {
  return a == b && (b == Element::f32 || (b == Element::bf16 && uses_bf16_instructions()));
}

int64_t packed_bytes(Element type, int64_t n, int64_t k) {
  const int64_t words = type == Element::f32 ? k : (k + 1) / 2;
  return (n + kPackedColumns - 1) / kPackedColumns * words * kPackedColumns * 4;
}

void pack_weights(const Matrix& b, int64_t n, int64_t k, void* out) {
  HWY_DYNAMIC_DISPATCH(pack_weights_target)(b, n, k, out);
}

}  // namespace heed::kernels
#endif
