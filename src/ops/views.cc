#include "ops/common.h"

namespace heed {
namespace {

/// Fills in the one dimension of -1 and checks that the number of elements stays the same.
Shape resolved_shape(const Tensor& x, const Shape& wanted) {
  Shape shape = wanted;
  int unknown = -1;
  Shape known;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      check(unknown < 0, "reshape", "{} has more than one unknown dimension", wanted);
      unknown = i;
    } else {
      check(shape[i] >= 0, "reshape", "{} has a negative dimension", wanted);
      known.push_back(shape[i]);
    }
  }
  const int64_t count = x.numel();
  const int64_t product = known.numel();
  if (unknown >= 0) {
    check(product > 0 && count % product == 0, "reshape", "shape {} does not divide into {}",
          x.shape(), wanted);
    shape[unknown] = count / product;
  } else {
    check(product == count, "reshape", "shape {} has {} elements, {} has {}", x.shape(), count,
          wanted, product);
  }
  return shape;
}

/// Strides of `shape` over x's memory, where they exist without a copy.
bool view_strides(const Tensor& x, const Shape& shape, Shape* strides) {
  *strides = contiguous_strides(shape);
  if (x.is_contiguous()) {
    return true;
  }
  // Walk both shapes from the end in pieces that hold equally many elements; within a piece x must
  // be laid out evenly.
  int old_axis = x.rank() - 1;
  int axis = shape.rank() - 1;
  while (old_axis >= 0) {
    const int64_t base = x.strides()[old_axis];
    int64_t old_count = x.shape()[old_axis];
    while (old_axis > 0 &&
           (x.shape()[old_axis - 1] == 1 || x.strides()[old_axis - 1] == base * old_count)) {
      old_count *= x.shape()[--old_axis];
    }
    --old_axis;
    int64_t count = 1;
    while (axis >= 0 && (count < old_count || shape[axis] == 1)) {
      (*strides)[axis] = base * count;
      count *= shape[axis--];
    }
    if (count != old_count) {
      return false;
    }
  }
  return true;
}

Tensor permuted(const Tensor& x, const Shape& order) {
  Shape shape = x.shape();
  Shape strides = x.strides();
  for (int i = 0; i < order.rank(); ++i) {
    shape[i] = x.shape()[static_cast<int>(order[i])];
    strides[i] = x.strides()[static_cast<int>(order[i])];
  }
  return x.alias(shape, strides, 0);
}

Tensor sliced(const Tensor& x, int axis, int64_t begin, int64_t end) {
  Shape shape = x.shape();
  shape[axis] = end - begin;
  return x.alias(shape, x.strides(), begin * x.strides()[axis]);
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& wanted) {
  check_defined(x, "reshape");
  const Shape shape = resolved_shape(x, wanted);
  Shape strides;
  const Tensor y = view_strides(x, shape, &strides)
                       ? x.alias(shape, strides, 0)
                       : x.contiguous().alias(shape, contiguous_strides(shape), 0);
  return record("reshape", y, {x},
                [shape = x.shape()](const Tensor& dy) { return std::vector{reshape(dy, shape)}; });
}

Tensor transpose(const Tensor& x, int axis_a, int axis_b) {
  check_defined(x, "transpose");
  const int a = x.shape().axis(axis_a, "transpose");
  const int b = x.shape().axis(axis_b, "transpose");
  return record("transpose", swap_axes(x, a, b), {x},
                [a, b](const Tensor& dy) { return std::vector{swap_axes(dy, a, b)}; });
}

Tensor permute(const Tensor& x, const Shape& order) {
  check_defined(x, "permute");
  check(order.rank() == x.rank(), "permute", "order {} must name every axis of shape {} once",
        order, x.shape());
  Shape forward = order;
  Shape inverse = order;
  unsigned seen = 0;
  for (int i = 0; i < order.rank(); ++i) {
    check(order[i] >= -x.rank() && order[i] < x.rank(), "permute",
          "axis {} out of range for shape {}", order[i], x.shape());
    forward[i] = order[i] < 0 ? order[i] + x.rank() : order[i];
    inverse[static_cast<int>(forward[i])] = i;
    seen |= 1u << forward[i];
  }
  check(seen == (1u << x.rank()) - 1, "permute", "order {} names an axis twice", order);
  return record("permute", permuted(x, forward), {x},
                [inverse](const Tensor& dy) { return std::vector{permuted(dy, inverse)}; });
}

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end) {
  check_defined(x, "slice");
  const int a = x.shape().axis(axis, "slice");
  check(0 <= begin && begin <= end && end <= x.shape()[a], "slice",
        "[{}, {}) out of range for axis {} of shape {}", begin, end, a, x.shape());
  return record("slice", sliced(x, a, begin, end), {x},
                [shape = x.shape(), a, begin, end](const Tensor& dy) {
                  Tensor dx = Tensor::zeros(shape, dy.dtype());
                  sliced(dx, a, begin, end).copy_from(dy);
                  return std::vector{dx};
                });
}

Tensor select(const Tensor& x, int axis, int64_t index) {
  check_defined(x, "select");
  const int a = x.shape().axis(axis, "select");
  const int64_t dim = x.shape()[a];
  check(index >= -dim && index < dim, "select", "index {} out of range for axis {} of shape {}",
        index, a, x.shape());
  const int64_t at = index < 0 ? index + dim : index;
  return squeeze(slice(x, a, at, at + 1), a);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  check_defined(x, "expand");
  check(broadcast_shapes(x.shape(), shape, "expand") == shape, "expand",
        "shape {} does not expand to {}", x.shape(), shape);
  return record("expand", x.alias(shape, broadcast_strides(x.shape(), x.strides(), shape), 0), {x},
                [before = x.shape()](const Tensor& dy) { return std::vector{sum_to(dy, before)}; });
}

Tensor squeeze(const Tensor& x, int axis) {
  check_defined(x, "squeeze");
  const int a = x.shape().axis(axis, "squeeze");
  check(x.shape()[a] == 1, "squeeze", "axis {} of shape {} is not 1", a, x.shape());
  Shape shape = x.shape();
  Shape strides = x.strides();
  shape.erase(a);
  strides.erase(a);
  return record("squeeze", x.alias(shape, strides, 0), {x},
                [a](const Tensor& dy) { return std::vector{unsqueeze(dy, a)}; });
}

Tensor unsqueeze(const Tensor& x, int axis) {
  check_defined(x, "unsqueeze");
  check(axis >= -x.rank() - 1 && axis <= x.rank(), "unsqueeze", "axis {} out of range for shape {}",
        axis, x.shape());
  const int a = axis < 0 ? axis + x.rank() + 1 : axis;
  Shape shape = x.shape();
  Shape strides = x.strides();
  strides.insert(a, a < x.rank() ? shape[a] * strides[a] : 1);
  shape.insert(a, 1);
  return record("unsqueeze", x.alias(shape, strides, 0), {x},
                [a](const Tensor& dy) { return std::vector{squeeze(dy, a)}; });
}

Tensor contiguous(const Tensor& x) {
  check_defined(x, "contiguous");
  if (x.is_contiguous()) {
    return x;
  }
  return record("contiguous", x.clone(), {x}, [](const Tensor& dy) { return std::vector{dy}; });
}

}  // namespace heed
