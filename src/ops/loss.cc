#include "kernels/loss.h"

#include <vector>

#include "kernels/reduce.h"
#include "ops/common.h"
#include "ops/loss.h"

namespace heed {

Targets checked_targets(const char* op, const Tensor& targets, const Shape& wanted, int64_t classes,
                        const CrossEntropyOptions& options) {
  check_defined(targets, op, "targets");
  check(targets.dtype() == DType::i64 || targets.dtype() == DType::i32, op,
        "targets of {}; i64 or i32 is wanted", name_of(targets.dtype()));
  check(targets.shape() == wanted, op, "targets {} where {} is wanted", targets.shape(), wanted);
  check(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0, op,
        "label smoothing {} is not in [0, 1]", options.label_smoothing);
  Targets result{targets.to(DType::i64).contiguous(), 0};
  const int64_t* values = result.ids.data<int64_t>();
  for (int64_t i = 0, n = result.ids.numel(); i < n; ++i) {
    if (values[i] != options.ignore_index) {
      check(values[i] >= 0 && values[i] < classes, op, "target {} out of range for {} classes",
            values[i], classes);
      ++result.counted;
    }
  }
  check(result.counted > 0, op, "none of the {} targets counts: all are the ignore index {}",
        result.ids.numel(), options.ignore_index);
  return result;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  check_floating(logits, "cross_entropy", "logits");
  check(logits.rank() > 0 && logits.size(-1) > 0, "cross_entropy", "logits {} have no classes",
        logits.shape());
  Shape wanted = logits.shape();
  wanted.erase(wanted.rank() - 1);
  const int64_t classes = logits.size(-1);
  const Targets target = checked_targets("cross_entropy", targets, wanted, classes, options);
  const int64_t rows = target.ids.numel();
  const kernels::CrossEntropy settings{options.ignore_index, options.label_smoothing};
  const Tensor x = logits.contiguous();
  const Tensor lse = Tensor::empty({rows}, compute_type(x.dtype()));
  std::vector<double> losses(static_cast<size_t>(rows));
  Tensor loss = Tensor::empty({}, x.dtype());
  dispatch_float(x.dtype(), "cross_entropy", [&](auto tag) {
    using T = decltype(tag);
    kernels::cross_entropy(losses.data(), lse.data<kernels::Compute<T>>(), x.data<T>(),
                           target.ids.data<int64_t>(), settings, rows, classes);
    *loss.data<T>() =
        from_double<T>(kernels::sum_all(losses.data(), rows) / static_cast<double>(target.counted));
  });
  return record("cross_entropy", loss, {logits},
                [x = Saved(x), lse, target, settings, rows, classes](const Tensor& dy) {
                  Tensor dx = Tensor::empty(x.get().shape(), dy.dtype());
                  const double scale = dy.item() / static_cast<double>(target.counted);
                  dispatch_float(dy.dtype(), "cross_entropy", [&](auto tag) {
                    using T = decltype(tag);
                    kernels::cross_entropy_grad<T, T>({.dlogits = dx.data<T>(),
                                                       .stride = classes,
                                                       .logits = x.get().data<T>(),
                                                       .lse = lse.data<kernels::Compute<T>>(),
                                                       .targets = target.ids.data<int64_t>(),
                                                       .options = settings,
                                                       .scale = scale,
                                                       .rows = rows,
                                                       .classes = classes});
                  });
                  return std::vector{dx};
                });
}

Tensor mse(const Tensor& prediction, const Tensor& target) {
  check_floating(prediction, "mse", "prediction");
  check_floating(target, "mse", "target");
  check_same_dtype(prediction, target, "mse");
  check(prediction.shape() == target.shape(), "mse", "prediction {} and target {} differ",
        prediction.shape(), target.shape());
  check(prediction.numel() > 0, "mse", "shape {} has no elements", prediction.shape());
  const Tensor p = prediction.contiguous();
  const Tensor t = target.contiguous();
  const auto count = static_cast<double>(p.numel());
  Tensor loss = Tensor::empty({}, p.dtype());
  dispatch_float(p.dtype(), "mse", [&](auto tag) {
    using T = decltype(tag);
    *loss.data<T>() = from_double<T>(
        kernels::sum_of_squared_differences(p.data<T>(), t.data<T>(), p.numel()) / count);
  });
  return record("mse", loss, {prediction, target},
                [p = Saved(p), t = Saved(t), count,
                 target_wanted = target.requires_grad()](const Tensor& dy) {
                  const double scale = 2.0 * dy.item() / count;
                  std::vector<Tensor> grads(2);
                  grads[0] = mul(sub(p.get(), t.get()), scale);
                  if (target_wanted) {
                    grads[1] = mul(grads[0], -1.0);
                  }
                  return grads;
                });
}

}  // namespace heed
