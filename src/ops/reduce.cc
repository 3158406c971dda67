#include "kernels/reduce.h"

#include "ops/common.h"

namespace heed {
namespace {

Shape without_axis(const Shape& shape, int axis, bool keep_axis) {
  Shape result = shape;
  if (keep_axis) {
    result[axis] = 1;
  } else {
    result.erase(axis);
  }
  return result;
}

/// A gradient of a reduction, repeated along the axis that was reduced: a view.
Tensor repeated(const Tensor& dy, const Shape& shape, int axis, bool keep_axis) {
  return expand(keep_axis ? dy : unsqueeze(dy, axis), shape);
}

Tensor sum_over(const char* op, const Tensor& x, int axis, bool keep_axis, bool average) {
  check_floating(x, op);
  const int a = x.shape().axis(axis, op);
  const AxisSplit split = split_at(x.shape(), a);
  check(!average || split.n > 0, op, "axis {} of shape {} is empty", a, x.shape());
  const double scale = average ? 1.0 / static_cast<double>(split.n) : 1.0;
  const Tensor y = sum_middle(x.contiguous(), split, without_axis(x.shape(), a, keep_axis), scale);
  return record(op, y, {x}, [=, shape = x.shape()](const Tensor& dy) {
    return std::vector{repeated(average ? mul(dy, scale) : dy, shape, a, keep_axis)};
  });
}

Tensor sum_everything(const char* op, const Tensor& x, double scale) {
  check_floating(x, op);
  const Tensor from = x.contiguous();
  Tensor y = Tensor::empty({}, x.dtype());
  dispatch_float(x.dtype(), op, [&](auto tag) {
    using T = decltype(tag);
    *y.data<T>() = from_double<T>(kernels::sum_all(from.data<T>(), from.numel()) * scale);
  });
  return record(op, y, {x}, [scale, shape = x.shape()](const Tensor& dy) {
    return std::vector{expand(scale == 1.0 ? dy : mul(dy, scale), shape)};
  });
}

struct Largest {
  Tensor value;
  Tensor place;
};

Largest largest_over(const char* op, const Tensor& x, int axis, bool keep_axis) {
  const AxisSplit split = split_at(x.shape(), axis);
  check(split.n > 0, op, "axis {} of shape {} is empty", axis, x.shape());
  const Tensor from = x.contiguous();
  const Shape shape = without_axis(x.shape(), axis, keep_axis);
  Largest found{Tensor::empty(shape, x.dtype()), Tensor::empty(shape, DType::i64)};
  dispatch_float(x.dtype(), op, [&](auto tag) {
    using T = decltype(tag);
    kernels::max_axis(found.value.data<T>(), found.place.data<int64_t>(), from.data<T>(),
                      split.outer, split.n, split.inner);
  });
  return found;
}

}  // namespace

Tensor sum(const Tensor& x) { return sum_everything("sum", x, 1.0); }

Tensor sum(const Tensor& x, int axis, bool keep_axis) {
  return sum_over("sum", x, axis, keep_axis, false);
}

Tensor mean(const Tensor& x) {
  check_floating(x, "mean");
  check(x.numel() > 0, "mean", "shape {} has no elements", x.shape());
  return sum_everything("mean", x, 1.0 / static_cast<double>(x.numel()));
}

Tensor mean(const Tensor& x, int axis, bool keep_axis) {
  return sum_over("mean", x, axis, keep_axis, true);
}

Tensor max(const Tensor& x, int axis, bool keep_axis) {
  check_floating(x, "max");
  const int a = x.shape().axis(axis, "max");
  const Largest found = largest_over("max", x, a, keep_axis);
  return record(
      "max", found.value, {x}, [a, shape = x.shape(), place = found.place](const Tensor& gradient) {
        const AxisSplit split = split_at(shape, a);
        const Tensor dy = gradient.contiguous();
        Tensor dx = Tensor::zeros(shape, dy.dtype());
        dispatch_float(dy.dtype(), "max", [&](auto tag) {
          using T = decltype(tag);
          const int64_t* at = place.data<int64_t>();
          for (int64_t i = 0; i < split.outer * split.inner; ++i) {
            const int64_t o = i / split.inner;
            dx.data<T>()[(o * split.n + at[i]) * split.inner + i % split.inner] = dy.data<T>()[i];
          }
        });
        return std::vector{dx};
      });
}

Tensor min(const Tensor& x, int axis, bool keep_axis) {
  check_floating(x, "min");
  x.shape().axis(axis, "min");
  return neg(max(neg(x), axis, keep_axis));
}

Tensor argmin(const Tensor& x, int axis) {
  check_floating(x, "argmin");
  x.shape().axis(axis, "argmin");
  return argmax(neg(x.detach()), axis);
}

Tensor argmax(const Tensor& x, int axis) {
  check_floating(x, "argmax");
  return largest_over("argmax", x, x.shape().axis(axis, "argmax"), false).place;
}

}  // namespace heed
