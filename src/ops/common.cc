#include "ops/common.h"

#include <cmath>

#include "kernels/reduce.h"

namespace heed {

AxisSplit split_at(const Shape& shape, int axis) {
  AxisSplit split;
  for (int i = 0; i < shape.rank(); ++i) {
    (i < axis ? split.outer : i == axis ? split.n : split.inner) *= shape[i];
  }
  return split;
}

Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& to) {
  Shape result = to;
  const int lead = to.rank() - shape.rank();
  for (int i = 0; i < to.rank(); ++i) {
    const bool repeats = i < lead || shape[i - lead] != to[i];
    result[i] = repeats ? 0 : strides[i - lead];
  }
  return result;
}

Tensor sum_middle(const Tensor& x, const AxisSplit& split, const Shape& shape, double scale) {
  Tensor y = Tensor::empty(shape, x.dtype());
  const Tensor scratch = Tensor::empty(
      {kernels::sum_axis_scratch(split.outer, split.n, split.inner)}, compute_type(x.dtype()));
  dispatch_float(x.dtype(), "sum", [&](auto tag) {
    using T = decltype(tag);
    kernels::sum_axis(y.data<T>(), x.data<T>(), split.outer, split.n, split.inner, scale,
                      scratch.data<kernels::Compute<T>>());
  });
  return y;
}

Tensor sum_to(const Tensor& gradient, const Shape& shape) {
  if (gradient.shape() == shape) {
    return gradient;
  }
  Tensor sum = gradient.contiguous();
  const int lead = sum.rank() - shape.rank();
  // From the last axis to the first, joining neighbours that are summed together.
  for (int last = sum.rank() - 1; last >= 0; --last) {
    const auto repeats = [&](int axis) {
      return sum.shape()[axis] != 1 && (axis < lead || shape[axis - lead] == 1);
    };
    if (!repeats(last)) {
      continue;
    }
    int first = last;
    while (first > 0 && repeats(first - 1)) {
      --first;
    }
    AxisSplit split = split_at(sum.shape(), last);
    Shape result = sum.shape();
    for (int axis = first; axis <= last; ++axis) {
      result[axis] = 1;
    }
    split.n = 1;
    for (int axis = first; axis <= last; ++axis) {
      split.n *= sum.shape()[axis];
    }
    split.outer = split_at(sum.shape(), first).outer;
    sum = sum_middle(sum, split, result, 1.0);
    last = first;
  }
  return sum.alias(shape, contiguous_strides(shape), 0);
}

Tensor swap_axes(const Tensor& x, int a, int b) {
  Shape shape = x.shape();
  Shape strides = x.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return x.alias(shape, strides, 0);
}

bool all_finite(const Tensor& x) {
  return dispatch_float(x.dtype(), "all_finite", [&](auto zero) {
    using T = decltype(zero);
    const Tensor flat = x.contiguous();
    const T* values = flat.data<T>();
    const int64_t count = flat.numel();
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(load_double(values[i]))) {
        return false;
      }
    }
    return true;
  });
}

Tensor checked_indices(const Tensor& index, int64_t limit, std::string_view op) {
  check_defined(index, op, "index");
  check(index.dtype() == DType::i64 || index.dtype() == DType::i32, op,
        "indices of {}; i64 or i32 is expected", name_of(index.dtype()));
  Tensor wide = index.to(DType::i64).contiguous();
  const int64_t* values = wide.data<int64_t>();
  for (int64_t i = 0, n = wide.numel(); i < n; ++i) {
    check(values[i] >= 0 && values[i] < limit, op, "index {} out of range for {} rows", values[i],
          limit);
  }
  return wide;
}

}  // namespace heed
