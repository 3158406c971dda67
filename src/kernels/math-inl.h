// Elementary functions on vectors, per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_MATH_INL_H_
#undef HEED_KERNELS_MATH_INL_H_
#else
#define HEED_KERNELS_MATH_INL_H_
#endif
// clang-format on

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// c[0] + c[1] x + … by Horner's rule.
template <class D, size_t N>
HWY_INLINE hn::Vec<D> polynomial(D d, hn::Vec<D> x, const hn::TFromD<D> (&c)[N]) {
  auto sum = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) {
    sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  }
  return sum;
}

/// 2^n for whole n in the normal range of the type.
template <class D>
HWY_INLINE hn::Vec<D> power_of_two(D d, hn::Vec<hn::RebindToSigned<D>> n) {
  const hn::RebindToSigned<D> di;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  } else {
    return hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(n, hn::Set(di, 1023))));
  }
}

/// x = n·ln 2 + r with |r| <= ln 2 / 2; gives e^r - 1 and n.
template <class D>
struct Reduced {
  hn::Vec<D> expm1;
  hn::Vec<hn::RebindToSigned<D>> n;
};

template <class D>
requires(sizeof(hn::TFromD<D>) == 4) HWY_INLINE Reduced<D> reduce_exp(D d, hn::Vec<D> x) {
  // Adding 1.5·2^23 leaves the nearest integer in the low bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504089f), magic);
  const auto whole = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(whole, hn::Set(d, 0.693145751953125f), x);
  r = hn::NegMulAdd(whole, hn::Set(d, 1.42860682030941723e-6f), r);
  // Minimax on ±ln 2 / 2 for (e^r - 1 - r) / r²; relative error of e^r 3e-9.
  static constexpr float kTail[] = {0.4999999403953552f, 0.1666652113199234f, 0.04166838899254799f,
                                    0.00836874544620514f, 0.0013814540579915047f};
  const auto tail = polynomial(d, r, kTail);
  const hn::RebindToSigned<D> di;
  const auto n = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x4b400000));
  return {hn::MulAdd(hn::Mul(r, r), tail, r), n};
}

template <class D>
requires(sizeof(hn::TFromD<D>) == 8) HWY_INLINE Reduced<D> reduce_exp(D d, hn::Vec<D> x) {
  const auto magic = hn::Set(d, 6755399441055744.0);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.4426950408889634074), magic);
  const auto whole = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(whole, hn::Set(d, 6.93147180369123816490e-01), x);
  r = hn::NegMulAdd(whole, hn::Set(d, 1.90821492927058770002e-10), r);
  static constexpr double kTail[] = {1.0 / 2,          1.0 / 6,           1.0 / 24,
                                     1.0 / 120,        1.0 / 720,         1.0 / 5040,
                                     1.0 / 40320.0,    1.0 / 362880.0,    1.0 / 3628800.0,
                                     1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0};
  const auto tail = polynomial(d, r, kTail);
  const hn::RebindToSigned<D> di;
  const auto n = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, int64_t{0x4338000000000000}));
  return {hn::MulAdd(hn::Mul(r, r), tail, r), n};
}

/// n / 2 rounded down, in each lane.
template <class DI>
HWY_INLINE hn::Vec<DI> halve(DI di, hn::Vec<DI> n) {
  if constexpr (sizeof(hn::TFromD<DI>) == 4) {
    (void)di;
    return hn::ShiftRight<1>(n);
  } else {
    // SSE and AVX2 have no arithmetic shift of 64 bits; n is small, so a bias makes it positive.
    const auto bias = hn::Set(di, int64_t{4096});
    const hn::RebindToUnsigned<DI> du;
    const auto shifted = hn::ShiftRight<1>(hn::BitCast(du, hn::Add(n, bias)));
    return hn::Sub(hn::BitCast(di, shifted), hn::Set(di, int64_t{2048}));
  }
}

/// e^x over the whole range: subnormal results, infinity and NaN included. About 1 ulp.
template <class D>
HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  constexpr bool kSingle = sizeof(T) == 4;
  const hn::RebindToSigned<D> di;
  const Reduced<D> reduced = reduce_exp(d, x);
  const auto half = halve(di, reduced.n);
  const auto first = power_of_two(d, half);
  const auto second = power_of_two(d, hn::Sub(reduced.n, half));
  auto y = hn::Mul(hn::MulAdd(reduced.expm1, first, first), second);
  const auto low = hn::Set(d, static_cast<T>(kSingle ? -104.0 : -746.0));
  const auto high = hn::Set(d, static_cast<T>(kSingle ? 88.7228394 : 709.782712893384));
  y = hn::IfThenElse(hn::Gt(x, high), hn::Set(d, std::numeric_limits<T>::infinity()), y);
  return hn::IfThenElse(hn::Lt(x, low), hn::Zero(d), y);
}

/// e^x for x <= 0 (softmax): results below the normal range become zero. NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp_negative(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  constexpr bool kSingle = sizeof(T) == 4;
  const Reduced<D> reduced = reduce_exp(d, x);
  const auto scale = power_of_two(d, reduced.n);
  const auto y = hn::MulAdd(reduced.expm1, scale, scale);
  const auto low = hn::Set(d, static_cast<T>(kSingle ? -87.0 : -708.0));
  return hn::IfThenElse(hn::Lt(x, low), hn::Zero(d), y);
}

/// Natural logarithm; -infinity at zero, NaN below it.
template <class D>
HWY_INLINE hn::Vec<D> log(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  auto y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, kInfinity)), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -kInfinity), y);
  const auto nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, nan);
}

/// (e^2a - 1) / (e^2a + 1) for a = |x|: no cancellation near zero.
template <class D>
HWY_INLINE hn::Vec<D> tanh(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const auto limit = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 10.0 : 20.0));
  const auto size = hn::Abs(x);
  const auto a = hn::IfThenElse(hn::Gt(size, limit), limit, size);
  const Reduced<D> reduced = reduce_exp(d, hn::Add(a, a));
  const auto scale = power_of_two(d, reduced.n);
  const auto expm1 = hn::MulAdd(reduced.expm1, scale, hn::Sub(scale, hn::Set(d, T{1})));
  return hn::CopySignToAbs(hn::Div(expm1, hn::Add(expm1, hn::Set(d, T{2}))), x);
}

/// 1 / (1 + e^-x), from e^-|x| so that the exponential never overflows.
template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>{1});
  const auto e = exp_negative(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

/// Distribution function and density of the standard normal: GELU and its gradient.
template <class D>
struct Normal {
  hn::Vec<D> cumulative;
  hn::Vec<D> density;
};

template <class D>
requires(sizeof(hn::TFromD<D>) == 4) HWY_INLINE Normal<D> normal(D d, hn::Vec<D> x) {
  // P(X < -a) = e^(-a²/2) · R(t), t = 1 / (1 + 0.35 a). R by a minimax fit on 0 <= a <= 14.4 with
  // relative error 3e-8; beyond that the exponential is zero.
  static constexpr float kRatio[] = {0.0f,
                                     0.1396213173866272f,
                                     0.1398632675409317f,
                                     0.11982309073209763f,
                                     0.10554556548595428f,
                                     -0.02319631725549698f,
                                     0.15929685533046722f,
                                     -0.2558193504810333f,
                                     0.14402155578136444f,
                                     -0.02915598824620247f};
  const auto one = hn::Set(d, 1.0f);
  const auto a = hn::Abs(x);
  const auto t = hn::Div(one, hn::MulAdd(a, hn::Set(d, 0.35f), one));
  const auto bell = exp_negative(d, hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f)));
  const auto below = hn::Mul(bell, polynomial(d, t, kRatio));
  const auto cumulative = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Sub(one, below));
  return {cumulative, hn::Mul(bell, hn::Set(d, 0.3989422804f))};
}

/// In f64 only gradient checks come here: the C library's erfc, lane by lane.
template <class D>
requires(sizeof(hn::TFromD<D>) == 8) HWY_INLINE Normal<D> normal(D d, hn::Vec<D> x) {
  HWY_ALIGN double lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    lanes[i] = 0.5 * std::erfc(-lanes[i] * 0.70710678118654752440);
  }
  const auto bell = exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5)));
  return {hn::Load(d, lanes), hn::Mul(bell, hn::Set(d, 0.39894228040143267794))};
}

/// x times the distribution function of the standard normal: GELU. In f32 without an exponential:
/// P(X < x) - 1/2 = x·A(x²)/B(x²), a minimax fit on |x| <= 5.6 with absolute error 1e-8; beyond
/// that the result is x or 0.
template <class D>
HWY_INLINE hn::Vec<D> times_normal(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return hn::Mul(x, normal(d, x).cumulative);
  } else {
    static constexpr float kAbove[] = {0.398942232131958f,     0.034376174211502075f,
                                       0.00470726378262043f,   0.00017385146929882467f,
                                       6.356541234708857e-06f, 2.214529004618271e-08f};
    static constexpr float kBelow[] = {1.0f,
                                       0.2528339922428131f,
                                       0.028940126299858093f,
                                       0.0019129823194816709f,
                                       7.510217983508483e-05f,
                                       1.1802119388448773e-06f};
    const auto limit = hn::Set(d, 5.6f);
    const auto lowest = hn::Neg(limit);
    auto inside = hn::IfThenElse(hn::Gt(x, limit), limit, x);  // NaN stays NaN
    const auto vanishes = hn::Lt(x, lowest);
    inside = hn::IfThenElse(vanishes, lowest, inside);
    const auto square = hn::Mul(inside, inside);
    const auto ratio =
        hn::Div(hn::Mul(inside, polynomial(d, square, kAbove)), polynomial(d, square, kBelow));
    return hn::IfThenElse(vanishes, hn::Zero(d), hn::Mul(x, hn::Add(ratio, hn::Set(d, 0.5f))));
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_MATH_INL_H_
