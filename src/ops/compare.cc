#include "ops/common.h"
#include "tensor/walk.h"

namespace heed {
namespace {

template <class T>
bool holds(Comparison op, T a, T b) {
  switch (op) {
    case Comparison::equal:
      return a == b;
    case Comparison::not_equal:
      return a != b;
    case Comparison::less:
      return a < b;
    case Comparison::less_equal:
      return a <= b;
    case Comparison::greater:
      return a > b;
    case Comparison::greater_equal:
      return a >= b;
  }
  return false;
}

/// An element as something that the language compares: halves as floats, the others as they are.
template <class T>
auto comparable(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return to_float(value);
  } else {
    return value;
  }
}

/// test(a, b) for every pair of elements of two broadcast tensors of one dtype: bool.
template <class Test>
Tensor tested(const char* op, const Tensor& a, const Tensor& b, Test&& test) {
  check_same_dtype(a, b, op);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  Tensor y = Tensor::empty(shape, DType::boolean);
  const Shape strides_a = broadcast_strides(a.shape(), a.strides(), shape);
  const Shape strides_b = broadcast_strides(b.shape(), b.strides(), shape);
  dispatch_dtype(a.dtype(), op, [&](auto tag) {
    using T = decltype(tag);
    walk_rows<3>(shape, {&y.strides(), &strides_a, &strides_b},
                 [&](std::array<int64_t, 3> at, std::array<int64_t, 3> step, int64_t count) {
                   bool* to = y.data<bool>() + at[0];
                   const T* from_a = a.data<T>() + at[1];
                   const T* from_b = b.data<T>() + at[2];
                   for (int64_t i = 0; i < count; ++i) {
                     to[i * step[0]] =
                         test(comparable(from_a[i * step[1]]), comparable(from_b[i * step[2]]));
                   }
                 });
  });
  return y;
}

void check_boolean(const Tensor& x, const char* op) {
  check_defined(x, op);
  check(x.dtype() == DType::boolean, op, "{} of {}; a bool tensor is expected, such as x > 0",
        x.shape(), name_of(x.dtype()));
}

}  // namespace

Tensor compare(Comparison op, const Tensor& a, const Tensor& b) {
  check_defined(a, "compare");
  check_defined(b, "compare");
  return tested("compare", a, b, [op](auto u, auto v) { return holds(op, u, v); });
}

Tensor compare(Comparison op, const Tensor& a, double b) {
  check_defined(a, "compare");
  // As doubles: exact for every element but integers beyond 2^53, and for fractions beside
  // integers.
  const Tensor wide = a.dtype() == DType::f64 ? a.detach() : a.to(DType::f64);
  return tested("compare", wide, Tensor::scalar(b, DType::f64),
                [op](auto u, auto v) { return holds(op, u, v); });
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  check_boolean(a, "logical_and");
  check_boolean(b, "logical_and");
  return tested("logical_and", a, b, [](auto u, auto v) { return u != 0 && v != 0; });
}

Tensor logical_or(const Tensor& a, const Tensor& b) {
  check_boolean(a, "logical_or");
  check_boolean(b, "logical_or");
  return tested("logical_or", a, b, [](auto u, auto v) { return u != 0 || v != 0; });
}

Tensor logical_not(const Tensor& x) {
  check_boolean(x, "logical_not");
  return tested("logical_not", x, x, [](auto u, auto) { return u == 0; });
}

int64_t count_nonzero(const Tensor& x) {
  check_defined(x, "count_nonzero");
  const Tensor flat = x.contiguous();
  return dispatch_dtype(x.dtype(), "count_nonzero", [&](auto tag) {
    const auto* values = flat.data<decltype(tag)>();
    int64_t count = 0;
    for (int64_t i = 0; i < flat.numel(); ++i) {
      count += load_double(values[i]) != 0.0 ? 1 : 0;
    }
    return count;
  });
}

bool all(const Tensor& x) {
  check_boolean(x, "all");
  return count_nonzero(x) == x.numel();
}

bool any(const Tensor& x) {
  check_boolean(x, "any");
  return count_nonzero(x) > 0;
}

}  // namespace heed
