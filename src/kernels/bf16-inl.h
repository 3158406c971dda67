// Pairs of bf16 numbers as AVX-512 BF16 multiplies them. Per-target code: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_BF16_INL_H_
#undef HEED_KERNELS_BF16_INL_H_
#else
#define HEED_KERNELS_BF16_INL_H_
#endif
// clang-format on

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Two bf16 of adjacent k as one word, wherever it lies in memory.
struct __attribute__((packed, aligned(2))) Bf16Pair {
  uint32_t bits;
};

/// One step of a product along k: a vector of B, an element of A, their product added to sums.
template <class T, class B>
struct Step {
  using D = hn::ScalableTag<T>;
  static HWY_INLINE hn::Vec<D> row(const B* b) { return load(D(), b); }
  static HWY_INLINE hn::Vec<D> factor(T a) { return hn::Set(D(), a); }
  static HWY_INLINE hn::Vec<D> add(hn::Vec<D> sum, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::MulAdd(a, b, sum);
  }
};

#undef HEED_BF16_INSTRUCTIONS
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define HEED_BF16_INSTRUCTIONS 1

/// sum + upper · upper + lower · lower, rounded to f32 after each addition like two fused
/// multiply-adds, but numbers below the normal ones count as zero. Highway 1.0.3 has no name for
/// the instruction.
template <>
struct Step<float, Bf16Pair> {
  using D = hn::ScalableTag<uint32_t>;
  using Sums = hn::Vec<hn::ScalableTag<float>>;
  static HWY_INLINE hn::Vec<D> row(const Bf16Pair* b) {
    return hn::LoadU(D(), reinterpret_cast<const uint32_t*>(b));
  }
  static HWY_INLINE hn::Vec<D> factor(Bf16Pair a) { return hn::Set(D(), a.bits); }
  static HWY_INLINE Sums add(Sums sum, hn::Vec<D> a, hn::Vec<D> b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
};

using HalfWords = hn::ScalableTag<uint16_t>;
using PairVec = hn::Vec<hn::ScalableTag<uint32_t>>;

/// 32 numbers of f32 rounded to bf16, `low` first.
template <class V>
HWY_INLINE hn::Vec<HalfWords> round_two(V low, V high) {
  hn::Vec<HalfWords> out;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(out.raw) : "v"(high.raw), "v"(low.raw));
  return out;
}

/// `count` (up to 32) elements along k as pairs, one after the other; zeros past them.
template <class T>
HWY_INLINE PairVec load_pairs(const T* p, int64_t count) {
  const hn::ScalableTag<uint32_t> d;
  if constexpr (std::is_same_v<T, BFloat16>) {
    const auto* bits = reinterpret_cast<const uint16_t*>(p);
    const HalfWords halves;
    const auto value =
        count >= 32 ? hn::LoadU(halves, bits)
                    : hn::MaskedLoad(hn::FirstN(halves, static_cast<size_t>(count)), halves, bits);
    return hn::BitCast(d, value);
  } else {
    const hn::ScalableTag<float> df;
    if (count >= 32) {
      return hn::BitCast(d, round_two(load(df, p), load(df, p + 16)));
    }
    const auto low = load_upto(df, p, static_cast<size_t>(HWY_MIN(count, int64_t{16})));
    const auto high =
        count > 16 ? load_some(df, p + 16, static_cast<size_t>(count - 16)) : hn::Zero(df);
    return hn::BitCast(d, round_two(low, high));
  }
}

/// Words of the lower halves' elements and the upper halves': element i of both in word i.
HWY_INLINE PairVec interleave_halves(hn::Vec<HalfWords> both) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return PairVec{_mm512_permutexvar_epi16(hn::Load(HalfWords(), kOrder).raw, both.raw)};
}

/// Pairs of `count` (up to 16) neighbours of two rows: those of `upper` in the upper halves. No
/// row: zeros.
template <class T>
HWY_INLINE PairVec join_pairs(const T* upper, const T* lower, int64_t count) {
  const auto n = static_cast<size_t>(count);
  if constexpr (std::is_same_v<T, BFloat16>) {
    const hn::Half<HalfWords> half;
    const auto take = [&](const T* p) HWY_ATTR {
      const auto* bits = reinterpret_cast<const uint16_t*>(p);
      return p == nullptr ? hn::Zero(half)
             : n == 16    ? hn::LoadU(half, bits)
                          : hn::MaskedLoad(hn::FirstN(half, n), half, bits);
    };
    return interleave_halves(hn::Combine(HalfWords(), take(upper), take(lower)));
  } else {
    const hn::ScalableTag<float> df;
    const auto take = [&](const T* p)
                          HWY_ATTR { return p == nullptr ? hn::Zero(df) : load_upto(df, p, n); };
    return interleave_halves(round_two(take(lower), take(upper)));
  }
}

#else
#define HEED_BF16_INSTRUCTIONS 0
#endif

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_BF16_INL_H_
