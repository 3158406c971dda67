#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "ops/common.h"
#include "ops/loss.h"
#include "ops/matrix.h"
#include "ops/quantized.h"

namespace heed {
namespace {

constexpr const char* kLinearLoss = "linear_cross_entropy";
constexpr int64_t kLogits = int64_t{32} << 20;  // elements of logits at a time, at most

/// Rows whose logits are in memory at a time: each piece packs the weight anew and reads and writes
/// all of its gradient, so few and equal ones.
int64_t rows_at_a_time(int64_t rows, int64_t classes) {
  const int64_t most = std::clamp<int64_t>(kLogits / classes, 64, 4096);
  const int64_t pieces = std::max<int64_t>(1, (rows + most - 1) / most);
  return std::max<int64_t>(1, (rows + pieces - 1) / pieces);
}

/// The rows of x whose target counts, in the type in which they are multiplied.
Tensor counted_rows(const Tensor& x, DType type, const Targets& targets, int64_t ignore_index,
                    int64_t width) {
  const Tensor wide = x.to(type).contiguous();
  Tensor rows = wide.alias({targets.ids.numel(), width}, {width, 1}, 0);
  if (targets.counted == targets.ids.numel()) {
    return rows;
  }
  Tensor picked = Tensor::empty({targets.counted, width}, rows.dtype());
  const int64_t bytes = bytes_of(rows.dtype(), width);
  const char* from = static_cast<const char*>(rows.raw());
  char* to = static_cast<char*>(picked.raw());
  for (int64_t i = 0; i < targets.ids.numel(); ++i) {
    if (targets.ids.data<int64_t>()[i] != ignore_index) {
      std::memcpy(to, from + i * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
  return picked;
}

Tensor counted_targets(const Targets& targets, int64_t ignore_index) {
  Tensor picked = Tensor::empty({targets.counted}, DType::i64);
  std::copy_if(targets.ids.data<int64_t>(), targets.ids.data<int64_t>() + targets.ids.numel(),
               picked.data<int64_t>(), [&](int64_t id) { return id != ignore_index; });
  return picked;
}

/// Gradients of the counted rows back at their positions; zeros elsewhere.
Tensor spread_rows(const Tensor& picked, const Targets& targets, int64_t ignore_index,
                   const Shape& shape) {
  if (targets.counted == targets.ids.numel()) {
    return picked.alias(shape, contiguous_strides(shape), 0);
  }
  Tensor all = Tensor::zeros(shape, picked.dtype());
  const int64_t bytes = bytes_of(picked.dtype(), picked.size(1));
  const char* from = static_cast<const char*>(picked.raw());
  for (int64_t i = 0; i < targets.ids.numel(); ++i) {
    if (targets.ids.data<int64_t>()[i] != ignore_index) {
      std::memcpy(static_cast<char*>(all.raw()) + i * bytes, from, static_cast<size_t>(bytes));
      from += bytes;
    }
  }
  return all;
}

/// What the passes over the rows leave behind; gradients of the mean loss.
struct Result {
  double loss = 0.0;
  Tensor dx, dw, db;
};

struct Wanted {
  bool x, w, b;
};

/// Logits of some rows in the type of the loss, and later their gradient in the type of the rows.
/// bf16 gradients take the place of their logits: the first half of each row.
class Logits {
 public:
  Logits(const Tensor& rows, const Tensor& weight, const Tensor& bias)
      : rows_(rows.size(0)), classes_(weight.size(0)), type_(rows.dtype()) {
    if (type_ != DType::bf16) {
      memory_ = linear(rows, weight, bias);
      return;
    }
    memory_ = Tensor::empty({rows_, classes_}, DType::f32);
    const Tensor wide = bias.defined() ? bias.to(DType::f32).contiguous() : bias;
    kernels::Epilogue epilogue;
    epilogue.bias = wide.defined() ? wide.raw() : nullptr;
    kernels::gemm({.m = rows_,
                   .n = classes_,
                   .k = weight.size(1),
                   .a = matrix_of(rows, kLinearLoss),
                   .b = transposed(matrix_of(weight, kLinearLoss)),
                   .c = memory_.raw(),
                   .c_type = kernels::Element::f32,
                   .c_stride = classes_,
                   .epilogue = epilogue});
  }
  template <class T>
  const T* data() const {
    return memory_.data<T>();
  }
  template <class T>
  kernels::Matrix to_gradient(const T* lse, const int64_t* ids,
                              const kernels::CrossEntropy& settings, double scale) {
    const auto gradient_into = [&]<class G>(G* dlogits, int64_t stride, const T* logits) {
      kernels::cross_entropy_grad<G, T>({.dlogits = dlogits,
                                         .stride = stride,
                                         .logits = logits,
                                         .lse = lse,
                                         .targets = ids,
                                         .options = settings,
                                         .scale = scale,
                                         .rows = rows_,
                                         .classes = classes_});
    };
    if (type_ != DType::bf16) {
      gradient_into(memory_.data<T>(), classes_, memory_.data<T>());
    } else if constexpr (std::is_same_v<T, float>) {
      gradient_into(static_cast<BFloat16*>(memory_.raw()), 2 * classes_, memory_.data<float>());
    }
    return {memory_.raw(), element_of(type_, kLinearLoss), row_elements(), 1};
  }
  /// Sums of the gradient's columns.
  Tensor column_sums() const {
    if (type_ != DType::bf16) {
      return sum(memory_, 0);
    }
    const int64_t width = row_elements();  // what is left of the logits is added up too, unused
    const Tensor sums = Tensor::empty({width});
    const Tensor scratch = Tensor::empty({kernels::sum_axis_scratch(1, rows_, width)});
    kernels::sum_axis(sums.data<float>(), static_cast<const BFloat16*>(memory_.raw()), 1, rows_,
                      width, 1.0, scratch.data<float>());
    return slice(sums, 0, 0, classes_);
  }

 private:
  int64_t row_elements() const { return type_ == DType::bf16 ? 2 * classes_ : classes_; }

  int64_t rows_, classes_;
  DType type_;
  Tensor memory_;
};

/// T: in which the loss and all gradients are computed.
template <class T>
Result run(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
           const kernels::CrossEntropy& settings, Wanted wanted) {
  const NoGrad no_grad;
  const int64_t rows = x.size(0);
  const int64_t width = x.size(1);
  const int64_t classes = weight.size(0);
  const int64_t chunk = rows_at_a_time(rows, classes);
  constexpr DType kType = DTypeOf<T>::value;
  const kernels::Element type = element_of(kType, kLinearLoss);
  Result result;
  if (wanted.x) {
    result.dx = Tensor::empty(x.shape(), kType);
  }
  if (wanted.w) {
    result.dw = Tensor::empty(weight.shape(), kType);
  }
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    const Tensor part = slice(x, 0, begin, begin + count);
    Logits logits(part, weight, bias);
    std::vector<double> losses(static_cast<size_t>(count));
    const Tensor lse = Tensor::empty({count}, kType);
    const int64_t* ids = targets.data<int64_t>() + begin;
    kernels::cross_entropy(losses.data(), lse.data<T>(), logits.data<T>(), ids, settings, count,
                           classes);
    result.loss += kernels::sum_all(losses.data(), count) / static_cast<double>(rows);
    if (!wanted.x && !wanted.w && !wanted.b) {
      continue;
    }
    const kernels::Matrix dlogits =
        logits.to_gradient(lse.data<T>(), ids, settings, 1.0 / static_cast<double>(rows));
    if (wanted.x && is_quantized(weight.dtype())) {
      if constexpr (std::is_same_v<T, float>) {
        multiply_by_quantized(count, dlogits, weight, result.dx.data<float>() + begin * width);
      }
    } else if (wanted.x) {
      kernels::gemm({.m = count,
                     .n = width,
                     .k = classes,
                     .a = dlogits,
                     .b = matrix_of(weight, kLinearLoss),
                     .c = result.dx.data<T>() + begin * width,
                     .c_type = type,
                     .c_stride = width});
    }
    if (wanted.w) {
      kernels::gemm({.m = classes,
                     .n = width,
                     .k = count,
                     .a = transposed(dlogits),
                     .b = matrix_of(part, kLinearLoss),
                     .c = result.dw.raw(),
                     .c_type = type,
                     .c_stride = width,
                     .accumulate = begin > 0});
    }
    if (wanted.b) {
      const Tensor sums = logits.column_sums();
      result.db = begin == 0 ? sums : add(result.db, sums);
    }
  }
  return result;
}

Tensor scaled(const Tensor& gradient, double factor, DType type) {
  if (!gradient.defined()) {
    return gradient;
  }
  return (factor == 1.0 ? gradient : mul(gradient, factor)).to(type);
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& targets, const CrossEntropyOptions& options) {
  check_floating(x, kLinearLoss, "x");
  check(weight.defined() && weight.rank() == 2 && x.rank() >= 1 && x.size(-1) == weight.size(1),
        kLinearLoss, "x {} does not fit weight {} ([classes, in])", x.shape(),
        weight.defined() ? weight.shape().to_string() : "undefined");
  Shape wanted_shape = x.shape();
  wanted_shape.erase(wanted_shape.rank() - 1);
  const Targets target =
      checked_targets(kLinearLoss, targets, wanted_shape, weight.size(0), options);
  const bool pairs = x.dtype() == DType::bf16 && !is_quantized(weight.dtype());
  const DType type = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor rows =
      counted_rows(x, pairs ? DType::bf16 : type, target, options.ignore_index, weight.size(1));
  const Tensor ids = counted_targets(target, options.ignore_index);
  const kernels::CrossEntropy settings{options.ignore_index, options.label_smoothing};
  Wanted wanted{};
  if (grad_enabled()) {
    wanted = {x.requires_grad(), weight.requires_grad(), bias.requires_grad()};
  }
  Result result = type == DType::f64 ? run<double>(rows, weight, bias, ids, settings, wanted)
                                     : run<float>(rows, weight, bias, ids, settings, wanted);
  if (result.dx.defined()) {
    result.dx = spread_rows(result.dx, target, options.ignore_index, x.shape());
  }
  Tensor loss = Tensor::scalar(result.loss, type);
  return record(
      kLinearLoss, loss, {x, weight, bias},
      [dx = result.dx, dw = result.dw, db = result.db, x_type = x.dtype(), w_type = weight.dtype(),
       b_type = bias.defined() ? bias.dtype() : DType::f32](const Tensor& dy) {
        const double factor = dy.item();
        return std::vector<Tensor>{scaled(dx, factor, x_type), scaled(dw, factor, w_type),
                                   scaled(db, factor, b_type)};
      });
}

}  // namespace heed
