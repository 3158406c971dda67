#include "base/check.h"
#include "heed/ops.h"
#include "kernels/activation.h"
#include "kernels/reduce.h"
#include "ops/activation.h"
#include "ops/matrix.h"
#include "ops/quantized.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

constexpr const char* kLinear = "linear";

struct Sizes {
  int64_t rows, in, out;
};

Sizes check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const LinearOptions& options) {
  check(weight.rank() == 2, kLinear, "weight {} is no matrix", weight.shape());
  const bool out_in = options.layout == WeightLayout::out_in;
  const int64_t in = weight.size(out_in ? 1 : 0);
  const int64_t out = weight.size(out_in ? 0 : 1);
  check(x.rank() >= 1 && x.size(-1) == in, kLinear, "input {} does not fit weight {} ({})",
        x.shape(), weight.shape(), out_in ? "[out, in]" : "[in, out]");
  check(is_floating(x.dtype()), kLinear, "takes floating inputs, not {}", name_of(x.dtype()));
  check((x.dtype() == DType::f64) == (weight.dtype() == DType::f64), kLinear,
        "f64 goes only with f64: input {}, weight {}", name_of(x.dtype()), name_of(weight.dtype()));
  check(!bias.defined() || (bias.rank() == 1 && bias.size(0) == out), kLinear,
        "bias {} does not fit {} outputs", bias.defined() ? bias.shape() : Shape(), out);
  const Shape rows(x.shape().begin(), static_cast<size_t>(x.rank() - 1));
  return {rows.numel(), in, out};
}

/// Quantised weights lie [out, in]; as [in, out] they are a transposed view of such.
kernels::Matrix quantized_matrix(const Tensor& weight, WeightLayout layout, int64_t rows) {
  const bool out_in = layout == WeightLayout::out_in;
  const int64_t in = weight.size(out_in ? 1 : 0);
  const Shape wanted = out_in ? Shape{in, 1} : Shape{1, in};
  check(weight.strides() == wanted && in % block_of(weight.dtype()) == 0, kLinear,
        "{} weight {} does not lie in rows of whole blocks", name_of(weight.dtype()),
        weight.shape());
  return {weight.raw(), quantized_element(weight.dtype()), 1, in, interleaved(weight, rows)};
}

/// The weight as the [in, out] matrix of the product with `rows` rows.
kernels::Matrix weight_matrix(const Tensor& weight, WeightLayout layout, int64_t rows) {
  if (is_quantized(weight.dtype())) {
    return quantized_matrix(weight, layout, rows);
  }
  const kernels::Matrix matrix = matrix_of(weight, kLinear);
  return layout == WeightLayout::out_in ? transposed(matrix) : matrix;
}

kernels::Matrix rows_of(const Tensor& x, int64_t width) {
  return {x.raw(), element_of(x.dtype(), kLinear), width, 1};
}

/// dx [rows, in] = dz · Wᵀ
Tensor input_gradient(const Tensor& dz, const Tensor& weight, const Shape& shape, const Sizes& e,
                      WeightLayout layout) {
  if (is_quantized(weight.dtype())) {
    const NoGrad no_grad;
    const Tensor dx = Tensor::empty(shape);
    multiply_by_quantized(e.rows, rows_of(dz, e.out),
                          layout == WeightLayout::out_in ? weight : transpose(weight),
                          dx.data<float>());
    return dx.to(dz.dtype());
  }
  Tensor dx = Tensor::empty(shape, dz.dtype());
  kernels::gemm({.m = e.rows,
                 .n = e.in,
                 .k = e.out,
                 .a = rows_of(dz, e.out),
                 .b = transposed(weight_matrix(weight, layout, e.rows)),
                 .c = dx.raw(),
                 .c_type = element_of(dx.dtype(), kLinear),
                 .c_stride = e.in});
  return dx;
}

/// dW in the weight's own layout.
Tensor weight_gradient(const Tensor& x, const Tensor& dz, const Tensor& weight, const Sizes& e,
                       WeightLayout layout) {
  Tensor dw = Tensor::empty(weight.shape(), weight.dtype());
  const bool out_in = layout == WeightLayout::out_in;
  const kernels::Matrix dz_rows = rows_of(dz, e.out);
  const kernels::Matrix x_rows = rows_of(x, e.in);
  kernels::gemm({.m = out_in ? e.out : e.in,
                 .n = out_in ? e.in : e.out,
                 .k = e.rows,
                 .a = transposed(out_in ? dz_rows : x_rows),
                 .b = out_in ? x_rows : dz_rows,
                 .c = dw.raw(),
                 .c_type = element_of(dw.dtype(), kLinear),
                 .c_stride = out_in ? e.in : e.out});
  return dw;
}

/// db, summed in f32 where dz is of 16 bits and the bias is not.
Tensor bias_gradient(const Tensor& dz, const Sizes& e, DType type) {
  if (type != DType::f32 || dz.dtype() == DType::f32) {
    return cast(sum(reshape(dz, {e.rows, e.out}), 0), type);
  }
  Tensor db = Tensor::empty({e.out}, type);
  const Tensor scratch = Tensor::empty({kernels::sum_axis_scratch(1, e.rows, e.out)}, type);
  dispatch_float(dz.dtype(), kLinear, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (!std::is_same_v<T, double>) {
      kernels::sum_axis(db.data<float>(), dz.data<T>(), 1, e.rows, e.out, 1.0,
                        scratch.data<float>());
    }
  });
  return db;
}

/// dz from dy. `before` is z where it was kept, else y is the activation's result.
Tensor activation_gradient(Activation kind, const Saved& before, const Saved& y, const Tensor& dy) {
  const kernels::Unary unary = kernel_of(kind);
  Tensor saved = before.get();
  if (!saved.defined()) {
    saved = y.get();
  } else if (kernels::grad_reads_result(unary)) {
    saved = activate(saved, kind);
  }
  Tensor dz = Tensor::empty(dy.shape(), dy.dtype());
  dispatch_float(dy.dtype(), kLinear, [&](auto tag) {
    using T = decltype(tag);
    kernels::unary_grad(unary, dz.data<T>(), dy.data<T>(), saved.data<T>(), dy.numel());
  });
  return dz;
}

}  // namespace

Tensor linear(const Tensor& x_in, const Tensor& weight, const Tensor& bias_in,
              const LinearOptions& options) {
  const Sizes e = check_arguments(x_in, weight, bias_in, options);
  const Tensor x = x_in.contiguous();
  const Tensor bias = bias_in.defined() ? bias_in.to(x.dtype()).contiguous() : bias_in;
  Shape shape = x.shape();
  shape[shape.rank() - 1] = e.out;
  Tensor y = Tensor::empty(shape, x.dtype());
  const bool activates = options.activation != Activation::none;
  const bool recording = needs_grad({x_in, weight, bias_in, options.residual});

  kernels::Epilogue epilogue;
  Tensor before;
  Tensor residual;
  if (bias.defined()) {
    epilogue.bias = bias.raw();
  }
  if (activates) {
    epilogue.activation = kernel_of(options.activation);
    // The gradient reads the activation's input, or its result where no residual covers it.
    if (recording &&
        (options.residual.defined() || !kernels::grad_reads_result(epilogue.activation))) {
      before = Tensor::empty(shape, y.dtype());
      epilogue.before = before.raw();
    }
  }
  if (options.residual.defined()) {
    check(options.residual.shape() == shape && options.residual.dtype() == y.dtype(), kLinear,
          "residual {} does not fit result {}", options.residual.shape(), shape);
    residual = options.residual.contiguous();
    epilogue.residual = residual.raw();
    epilogue.residual_stride = e.out;
  }
  kernels::Matrix matrix = weight_matrix(weight, options.layout, e.rows);
  if (options.layout == WeightLayout::out_in && !recording && matrix.interleaved == nullptr) {
    matrix.interleaved = packed(weight, x.dtype());
  }
  kernels::gemm({.m = e.rows,
                 .n = e.out,
                 .k = e.in,
                 .a = rows_of(x, e.in),
                 .b = matrix,
                 .c = y.raw(),
                 .c_type = element_of(y.dtype(), kLinear),
                 .c_stride = e.out,
                 .epilogue = epilogue});
  if (!recording) {  // a step of decoding calls this often: no closure for nothing
    return y;
  }
  return record(
      kLinear, y, {x_in, weight, bias_in, options.residual},
      [x = Saved(x), weight = Saved(weight), before = Saved(before),
       y = Saved(activates ? y : Tensor()), e, layout = options.layout, kind = options.activation,
       want_x = x_in.requires_grad(), want_w = weight.requires_grad(),
       want_b = bias_in.requires_grad(),
       bias_type = bias_in.defined() ? bias_in.dtype() : x.dtype(),
       want_r = options.residual.requires_grad()](const Tensor& dy_in) -> std::vector<Tensor> {
        const Tensor dy = dy_in.contiguous();
        const Tensor dz = kind == Activation::none ? dy : activation_gradient(kind, before, y, dy);
        std::vector<Tensor> gradients(4);
        if (want_x) {
          gradients[0] = input_gradient(dz, weight.get(), x.get().shape(), e, layout);
        }
        if (want_w) {
          gradients[1] = weight_gradient(x.get(), dz, weight.get(), e, layout);
        }
        if (want_b) {
          gradients[2] = bias_gradient(dz, e, bias_type);
        }
        if (want_r) {
          gradients[3] = dy;
        }
        return gradients;
      });
}

}  // namespace heed
