#include "ops/activation.h"

#include "ops/common.h"

namespace heed {
namespace {

using kernels::Unary;

Tensor unary_op(const char* name, Unary kind, const Tensor& input) {
  check_floating(input, name);
  const Tensor x = input.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), name, [&](auto tag) {
    using T = decltype(tag);
    kernels::unary(kind, y.data<T>(), x.data<T>(), x.numel());
  });
  if (!needs_grad({input})) {
    return y;
  }
  const Saved saved(kernels::grad_reads_result(kind) ? y : x);
  return record(name, y, {input}, [name, kind, saved](const Tensor& gradient) {
    const Tensor dy = gradient.contiguous();
    Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
    dispatch_float(dy.dtype(), name, [&](auto tag) {
      using T = decltype(tag);
      kernels::unary_grad(kind, dx.data<T>(), dy.data<T>(), saved.get().data<T>(), dy.numel());
    });
    return std::vector{dx};
  });
}

}  // namespace

kernels::Unary kernel_of(Activation kind) {
  switch (kind) {
    case Activation::none:
      return Unary::identity;
    case Activation::relu:
      return Unary::relu;
    case Activation::gelu:
      return Unary::gelu;
    case Activation::gelu_tanh:
      return Unary::gelu_tanh;
    case Activation::silu:
      return Unary::silu;
    case Activation::tanh:
      return Unary::tanh;
    case Activation::sigmoid:
      return Unary::sigmoid;
    case Activation::quick_gelu:
      return Unary::quick_gelu;
  }
  fail(ErrorKind::runtime, "activate", "unknown activation {}", static_cast<int>(kind));
}

Tensor exp(const Tensor& x) { return unary_op("exp", Unary::exp, x); }
Tensor log(const Tensor& x) { return unary_op("log", Unary::log, x); }
Tensor sqrt(const Tensor& x) { return unary_op("sqrt", Unary::sqrt, x); }
Tensor tanh(const Tensor& x) { return unary_op("tanh", Unary::tanh, x); }
Tensor sigmoid(const Tensor& x) { return unary_op("sigmoid", Unary::sigmoid, x); }
Tensor relu(const Tensor& x) { return unary_op("relu", Unary::relu, x); }
Tensor gelu(const Tensor& x) { return unary_op("gelu", Unary::gelu, x); }
Tensor gelu_tanh(const Tensor& x) { return unary_op("gelu_tanh", Unary::gelu_tanh, x); }
Tensor silu(const Tensor& x) { return unary_op("silu", Unary::silu, x); }
Tensor quick_gelu(const Tensor& x) { return unary_op("quick_gelu", Unary::quick_gelu, x); }

Tensor activate(const Tensor& x, Activation kind) {
  check_floating(x, "activate");
  return kind == Activation::none ? x : unary_op("activate", kernel_of(kind), x);
}

Tensor gated(const Tensor& gate, const Tensor& up, Activation kind) {
  check_floating(gate, "gated", "gate");
  check_floating(up, "gated", "up");
  check_same_dtype(gate, up, "gated");
  check(gate.shape() == up.shape(), "gated", "gate {} and up {} differ", gate.shape(), up.shape());
  const Tensor g = gate.contiguous();
  const Tensor u = up.contiguous();
  Tensor y = Tensor::empty(g.shape(), g.dtype());
  dispatch_float(g.dtype(), "gated", [&](auto tag) {
    using T = decltype(tag);
    kernels::gated(kernel_of(kind), y.data<T>(), g.data<T>(), u.data<T>(), g.numel());
  });
  return record("gated", y, {gate, up}, [kind, g = Saved(g), u = Saved(u)](const Tensor& gradient) {
    const Tensor dy = gradient.contiguous();
    Tensor dg = Tensor::empty(dy.shape(), dy.dtype());
    Tensor du = Tensor::empty(dy.shape(), dy.dtype());
    dispatch_float(dy.dtype(), "gated", [&](auto tag) {
      using T = decltype(tag);
      kernels::gated_grad(kernel_of(kind), dg.data<T>(), du.data<T>(), dy.data<T>(),
                          g.get().data<T>(), u.get().data<T>(), dy.numel());
    });
    return std::vector{dg, du};
  });
}

}  // namespace heed
