#include "kernels/softmax.h"

#include "ops/common.h"

namespace heed {
namespace {

using RowsFn = Tensor (*)(const Tensor&);
using RowsGradFn = Tensor (*)(const Tensor&, const Tensor&);

int64_t rows_of(const Tensor& x) {
  const int64_t n = x.size(-1);
  return n == 0 ? 0 : x.numel() / n;
}

Tensor softmax_of_rows(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "softmax", [&](auto tag) {
    using T = decltype(tag);
    kernels::softmax(y.data<T>(), x.data<T>(), rows_of(x), x.size(-1));
  });
  return y;
}

Tensor softmax_grad_of_rows(const Tensor& dy, const Tensor& y) {
  Tensor dx = Tensor::empty(y.shape(), y.dtype());
  dispatch_float(y.dtype(), "softmax", [&](auto tag) {
    using T = decltype(tag);
    kernels::softmax_grad(dx.data<T>(), dy.data<T>(), y.data<T>(), rows_of(y), y.size(-1));
  });
  return dx;
}

Tensor log_softmax_of_rows(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "log_softmax", [&](auto tag) {
    using T = decltype(tag);
    kernels::log_softmax(y.data<T>(), x.data<T>(), rows_of(x), x.size(-1));
  });
  return y;
}

Tensor log_softmax_grad_of_rows(const Tensor& dy, const Tensor& y) {
  Tensor dx = Tensor::empty(y.shape(), y.dtype());
  dispatch_float(y.dtype(), "log_softmax", [&](auto tag) {
    using T = decltype(tag);
    kernels::log_softmax_grad(dx.data<T>(), dy.data<T>(), y.data<T>(), rows_of(y), y.size(-1));
  });
  return dx;
}

/// Runs over the last axis; another axis is brought there by a copy.
Tensor over_axis(const char* op, const Tensor& x, int axis, RowsFn forward, RowsGradFn gradient) {
  check_floating(x, op);
  const int a = x.shape().axis(axis, op);
  const int last = x.rank() - 1;
  const Tensor y = forward(swap_axes(x, a, last).contiguous());
  return record(op, swap_axes(y, a, last), {x},
                [a, last, gradient, y = Saved(y)](const Tensor& dy) {
                  const Tensor dx = gradient(swap_axes(dy, a, last).contiguous(), y.get());
                  return std::vector{swap_axes(dx, a, last)};
                });
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return over_axis("softmax", x, axis, softmax_of_rows, softmax_grad_of_rows);
}

Tensor log_softmax(const Tensor& x, int axis) {
  return over_axis("log_softmax", x, axis, log_softmax_of_rows, log_softmax_grad_of_rows);
}

}  // namespace heed
