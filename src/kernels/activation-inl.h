// The elementwise functions and their slopes, per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ACTIVATION_INL_H_
#undef HEED_KERNELS_ACTIVATION_INL_H_
#else
#define HEED_KERNELS_ACTIVATION_INL_H_
#endif
// clang-format on

#include "kernels/activation.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

// value(x), and slope() of the input x or, where grad_reads_result(kKind), of the result y.

struct Identity {
  static constexpr Unary kKind = Unary::identity;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D, hn::Vec<D> x) {
    return x;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D>) {
    return constant(d, 1.0);
  }
};

struct Exp {
  static constexpr Unary kKind = Unary::exp;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return exp(d, x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D, hn::Vec<D> y) {
    return y;
  }
};

struct Log {
  static constexpr Unary kKind = Unary::log;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return log(d, x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> x) {
    return hn::Div(constant(d, 1.0), x);
  }
};

struct Sqrt {
  static constexpr Unary kKind = Unary::sqrt;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D, hn::Vec<D> x) {
    return hn::Sqrt(x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> y) {
    return hn::Div(constant(d, 0.5), y);
  }
};

struct Tanh {
  static constexpr Unary kKind = Unary::tanh;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return tanh(d, x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> y) {
    return hn::NegMulAdd(y, y, constant(d, 1.0));
  }
};

struct Sigmoid {
  static constexpr Unary kKind = Unary::sigmoid;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return sigmoid(d, x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D, hn::Vec<D> y) {
    return hn::NegMulAdd(y, y, y);
  }
};

struct Relu {
  static constexpr Unary kKind = Unary::relu;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);  // NaN stays NaN
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> y) {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), constant(d, 1.0));
  }
};

struct Gelu {
  static constexpr Unary kKind = Unary::gelu;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return times_normal(d, x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> x) {
    const Normal<D> at = normal(d, x);
    return hn::MulAdd(x, at.density, at.cumulative);
  }
};

/// 0.5 x (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x³): one exponential, and no
/// cancellation for negative x.
struct GeluTanh {
  static constexpr Unary kKind = Unary::gelu_tanh;
  static constexpr double kScale = 1.59576912160573071176;  // 2 sqrt(2/pi)
  static constexpr double kCubic = 0.044715;
  template <class D>
  static HWY_INLINE hn::Vec<D> gate(D d, hn::Vec<D> x) {
    const auto square = hn::Mul(x, x);
    const auto factor = hn::MulAdd(square, constant(d, kScale * kCubic), constant(d, kScale));
    return sigmoid(d, hn::Mul(x, factor));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::Mul(x, gate(d, x));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> x) {
    const auto s = gate(d, x);
    const auto inner =
        hn::MulAdd(hn::Mul(x, x), constant(d, 3 * kScale * kCubic), constant(d, kScale));
    return hn::MulAdd(hn::Mul(x, hn::NegMulAdd(s, s, s)), inner, s);
  }
};

struct Silu {
  static constexpr Unary kKind = Unary::silu;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::Mul(x, sigmoid(d, x));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> x) {
    const auto s = sigmoid(d, x);
    return hn::MulAdd(x, hn::NegMulAdd(s, s, s), s);
  }
};

struct QuickGelu {
  static constexpr Unary kKind = Unary::quick_gelu;
  static constexpr double kScale = 1.702;
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::Mul(x, sigmoid(d, hn::Mul(x, constant(d, kScale))));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> x) {
    const auto scaled = hn::Mul(x, constant(d, kScale));
    const auto s = sigmoid(d, scaled);
    return hn::MulAdd(scaled, hn::NegMulAdd(s, s, s), s);
  }
};

/// Calls fn(Gelu{}) and so on by the kind.
template <class Fn>
HWY_INLINE void with_unary(Unary kind, Fn&& fn) {
  switch (kind) {
    case Unary::identity:
      return fn(Identity{});
    case Unary::exp:
      return fn(Exp{});
    case Unary::log:
      return fn(Log{});
    case Unary::sqrt:
      return fn(Sqrt{});
    case Unary::tanh:
      return fn(Tanh{});
    case Unary::sigmoid:
      return fn(Sigmoid{});
    case Unary::relu:
      return fn(Relu{});
    case Unary::gelu:
      return fn(Gelu{});
    case Unary::gelu_tanh:
      return fn(GeluTanh{});
    case Unary::silu:
      return fn(Silu{});
    case Unary::quick_gelu:
      return fn(QuickGelu{});
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ACTIVATION_INL_H_
