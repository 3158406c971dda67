#pragma once

#include <initializer_list>
#include <string_view>

#include "base/check.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "tensor/dispatch.h"

namespace heed {

/// What every op asks of an argument before it looks at it.
inline void check_defined(const Tensor& x, std::string_view op, std::string_view name = "input") {
  check(x.defined(), op, "{} is undefined", name);
}
inline void check_floating(const Tensor& x, std::string_view op, std::string_view name = "input") {
  check_defined(x, op, name);
  check(is_floating(x.dtype()), op, "{} {} of {}: a floating type is wanted", name, x.shape(),
        name_of(x.dtype()));
}
inline void check_same_dtype(const Tensor& a, const Tensor& b, std::string_view op) {
  check(a.dtype() == b.dtype(), op, "{} of {} meets {} of {}; cast() one of them", a.shape(),
        name_of(a.dtype()), b.shape(), name_of(b.dtype()));
}

/// Dimensions before, at and after an axis: the [outer, n, inner] of reductions and joins.
struct AxisSplit {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;
};
AxisSplit split_at(const Shape& shape, int axis);

/// Strides that repeat a tensor of `shape` and `strides` over the broadcast shape `to`.
Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& to);

/// The type in which the elements of a floating type are computed.
inline DType compute_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

/// Sum over the middle axis of a contiguous [outer, n, inner], times scale, as a tensor of `shape`.
Tensor sum_middle(const Tensor& x, const AxisSplit& split, const Shape& shape, double scale);

/// Sums a gradient over the axes along which a tensor of `shape` was repeated. In a fixed order.
Tensor sum_to(const Tensor& gradient, const Shape& shape);

/// x with the last two named axes exchanged, as a view without history.
Tensor swap_axes(const Tensor& x, int a, int b);

/// Whether no element of a floating tensor is NaN or infinite.
bool all_finite(const Tensor& x);

/// Indices as contiguous i64, each checked to lie in [0, limit).
Tensor checked_indices(const Tensor& index, int64_t limit, std::string_view op);

}  // namespace heed
