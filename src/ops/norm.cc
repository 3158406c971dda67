#include "kernels/norm.h"

#include "ops/common.h"

namespace heed {
namespace {

/// x [..., n] with parameters [n] of the same type.
void check_norm(const char* op, const Tensor& x, const Tensor& parameter, const char* name) {
  check_floating(x, op);
  check_floating(parameter, op, name);
  check_same_dtype(x, parameter, op);
  check(x.rank() > 0 && x.size(-1) > 0, op, "shape {} has no last axis to normalise", x.shape());
  check(parameter.rank() == 1 && parameter.size(0) == x.size(-1), op, "{} {} for input {}", name,
        parameter.shape(), x.shape());
}

Tensor scratch_for(const Tensor& x) {
  const int64_t n = x.size(-1);
  return Tensor::empty({kernels::norm_grad_scratch(x.numel() / n, n)}, compute_type(x.dtype()));
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double eps) {
  check_norm("layer_norm", input, weight, "weight");
  if (bias.defined()) {
    check_norm("layer_norm", input, bias, "bias");
  }
  const Tensor x = input.contiguous();
  const Tensor w = weight.contiguous();
  const Tensor b = bias.defined() ? bias.contiguous() : bias;
  const int64_t n = x.size(-1);
  const int64_t rows = x.numel() / n;
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const Tensor mean = Tensor::empty({rows}, compute_type(x.dtype()));
  const Tensor scale = Tensor::empty({rows}, compute_type(x.dtype()));
  dispatch_float(x.dtype(), "layer_norm", [&](auto tag) {
    using T = decltype(tag);
    using C = kernels::Compute<T>;
    kernels::layer_norm<T>({.y = y.data<T>(),
                            .mean = mean.data<C>(),
                            .scale = scale.data<C>(),
                            .x = x.data<T>(),
                            .weight = w.data<T>(),
                            .bias = b.defined() ? b.data<T>() : nullptr,
                            .eps = eps,
                            .rows = rows,
                            .n = n});
  });
  return record("layer_norm", y, {input, weight, bias},
                [x = Saved(x), w = Saved(w), mean, scale, rows, n,
                 has_bias = bias.defined()](const Tensor& gradient) {
                  const Tensor dy = gradient.contiguous();
                  Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
                  Tensor dw = Tensor::empty({n}, dy.dtype());
                  Tensor db = has_bias ? Tensor::empty({n}, dy.dtype()) : Tensor();
                  const Tensor scratch = scratch_for(dy);
                  dispatch_float(dy.dtype(), "layer_norm", [&](auto tag) {
                    using T = decltype(tag);
                    using C = kernels::Compute<T>;
                    kernels::norm_grad<T>({.dx = dx.data<T>(),
                                           .dweight = dw.data<T>(),
                                           .dbias = has_bias ? db.data<T>() : nullptr,
                                           .dy = dy.data<T>(),
                                           .x = x.get().data<T>(),
                                           .weight = w.get().data<T>(),
                                           .mean = mean.data<C>(),
                                           .scale = scale.data<C>(),
                                           .rows = rows,
                                           .n = n,
                                           .scratch = scratch.data<C>()});
                  });
                  return std::vector{dx, dw, db};
                });
}

Tensor rms_norm(const Tensor& input, const Tensor& weight, double eps) {
  check_norm("rms_norm", input, weight, "weight");
  const Tensor x = input.contiguous();
  const Tensor w = weight.contiguous();
  const int64_t n = x.size(-1);
  const int64_t rows = x.numel() / n;
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const Tensor scale = Tensor::empty({rows}, compute_type(x.dtype()));
  dispatch_float(x.dtype(), "rms_norm", [&](auto tag) {
    using T = decltype(tag);
    using C = kernels::Compute<T>;
    kernels::rms_norm(y.data<T>(), scale.data<C>(), x.data<T>(), w.data<T>(), eps, rows, n);
  });
  return record("rms_norm", y, {input, weight},
                [x = Saved(x), w = Saved(w), scale, rows, n](const Tensor& gradient) {
                  const Tensor dy = gradient.contiguous();
                  Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
                  Tensor dw = Tensor::empty({n}, dy.dtype());
                  const Tensor scratch = scratch_for(dy);
                  dispatch_float(dy.dtype(), "rms_norm", [&](auto tag) {
                    using T = decltype(tag);
                    using C = kernels::Compute<T>;
                    kernels::norm_grad<T>({.dx = dx.data<T>(),
                                           .dweight = dw.data<T>(),
                                           .dbias = nullptr,
                                           .dy = dy.data<T>(),
                                           .x = x.get().data<T>(),
                                           .weight = w.get().data<T>(),
                                           .mean = nullptr,
                                           .scale = scale.data<C>(),
                                           .rows = rows,
                                           .n = n,
                                           .scratch = scratch.data<C>()});
                  });
                  return std::vector{dx, dw};
                });
}

}  // namespace heed
