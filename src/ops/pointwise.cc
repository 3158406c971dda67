#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "heed/ops.h"
#include "kernels/types.h"
#include "ops/common.h"

// abs, clamp, pow, sin, cos, maximum and minimum: one plain loop each, computed in f32 or f64.

namespace heed {
namespace {

constexpr int64_t kGrain = 8192;  // elements per range

/// y[i] = fn(x[i]) in the compute type.
template <class Fn>
Tensor mapped(const char* op, const Tensor& x, Fn&& fn) {
  const Tensor from = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), op, [&](auto tag) {
    using T = decltype(tag);
    using C = kernels::Compute<T>;
    const T* in = from.data<T>();
    T* out = y.data<T>();
    parallel_ranges(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        out[i] = from_double<T>(fn(static_cast<C>(load_double(in[i]))));
      }
    });
  });
  return y;
}

/// The gradient of an op of one input: dx[i] = slope(x[i]) · dy[i].
template <class Slope>
Tensor with_slope(const char* op, const Tensor& y, const Tensor& x, Slope slope) {
  return record(op, y, {x}, [op, slope, x = Saved(x)](const Tensor& dy) {
    return std::vector{mul(dy, mapped(op, x.get(), slope))};
  });
}

}  // namespace

Tensor abs(const Tensor& x) {
  check_floating(x, "abs");
  return with_slope("abs", mapped("abs", x, [](auto v) { return std::abs(v); }), x, [](auto v) {
    return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0;
  });
}

Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  check_floating(x, "clamp");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double least = low.value_or(-kInfinity);
  const double most = high.value_or(kInfinity);
  check(least <= most, "clamp", "the low bound {} is above the high one {}", least, most);
  const Tensor y = mapped("clamp", x, [=](auto v) {
    return v < least ? least : v > most ? most : static_cast<double>(v);
  });
  return with_slope("clamp", y, x, [=](auto v) { return v < least || v > most ? 0.0 : 1.0; });
}

Tensor pow(const Tensor& x, double exponent) {
  check_floating(x, "pow");
  const Tensor y = mapped("pow", x, [=](auto v) {
    return exponent == 2.0 ? static_cast<double>(v) * v
                           : std::pow(static_cast<double>(v), exponent);
  });
  return with_slope("pow", y, x, [=](auto v) {
    return exponent == 0.0   ? 0.0
           : exponent == 2.0 ? 2.0 * v
                             : exponent * std::pow(static_cast<double>(v), exponent - 1.0);
  });
}

Tensor sin(const Tensor& x) {
  check_floating(x, "sin");
  return with_slope("sin", mapped("sin", x, [](auto v) { return std::sin(v); }), x,
                    [](auto v) { return std::cos(v); });
}

Tensor cos(const Tensor& x) {
  check_floating(x, "cos");
  return with_slope("cos", mapped("cos", x, [](auto v) { return std::cos(v); }), x,
                    [](auto v) { return -std::sin(v); });
}

// NaN on either side gives NaN.
Tensor maximum(const Tensor& a, const Tensor& b) {
  check_floating(a, "maximum");
  check_floating(b, "maximum");
  return where((a.detach() >= b.detach()) | (a.detach() != a.detach()), a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  check_floating(a, "minimum");
  check_floating(b, "minimum");
  return where((a.detach() <= b.detach()) | (a.detach() != a.detach()), a, b);
}

}  // namespace heed
