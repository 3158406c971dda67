#include <algorithm>

#include "ops/common.h"

// Tensor's subscripts, as ops: views whose gradient is put back where it came from.

namespace heed {
namespace {

/// x along one axis from `begin` on, `count` elements `step` apart; without history.
Tensor stepped(const Tensor& x, int axis, int64_t begin, int64_t count, int64_t step) {
  Shape shape = x.shape();
  Shape strides = x.strides();
  shape[axis] = count;
  strides[axis] *= step;
  return x.alias(shape, strides, begin * x.strides()[axis]);
}

/// A bound of a Slice as a position of an axis of `size`.
int64_t position_of(int64_t bound, int64_t size) {
  return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size);
}

}  // namespace

Tensor Tensor::operator[](int64_t index) const {
  check(rank() > 0, "operator[]", "a scalar has no axis to index; item() is its value");
  return select(*this, 0, index);
}

Tensor Tensor::slice(int axis, std::optional<int64_t> begin, std::optional<int64_t> end,
                     int64_t step) const {
  check_defined(*this, "slice");
  const int a = shape().axis(axis, "slice");
  check(step >= 1, "slice", "a step of {} along axis {} of shape {}; steps are 1 or more", step, a,
        shape());
  const int64_t size = shape()[a];
  const int64_t from = position_of(begin.value_or(0), size);
  const int64_t to = std::max(from, position_of(end.value_or(size), size));
  const int64_t count = (to - from + step - 1) / step;
  if (from == 0 && count == size) {
    return *this;
  }
  return record("slice", stepped(*this, a, from, count, step), {*this},
                [before = shape(), a, from, count, step](const Tensor& dy) {
                  Tensor dx = Tensor::zeros(before, dy.dtype());
                  stepped(dx, a, from, count, step).copy_from(dy);
                  return std::vector{dx};
                });
}

Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  check_defined(*this, "index");
  check(std::cmp_less_equal(indices.size(), rank()), "index", "{} indices for shape {}",
        indices.size(), shape());
  Tensor result = *this;
  int axis = 0;
  for (const TensorIndex& each : indices) {
    if (each.is_integer()) {
      result = select(result, axis, each.integer());
    } else {
      result = result.slice(axis++, each.slice().begin, each.slice().end, each.slice().step);
    }
  }
  return result;
}

}  // namespace heed
