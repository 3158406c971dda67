#include "kernels/gather.h"
#include "ops/common.h"

namespace heed {
namespace {

/// Rows of x along axis 0 by indices of any shape.
Tensor rows_of(const char* op, const Tensor& input, const Tensor& index) {
  const int64_t rows = input.size(0);
  const Tensor ids = checked_indices(index, rows, op);
  const Tensor x = input.contiguous();
  const int64_t width = rows == 0 ? 0 : x.numel() / rows;
  Shape shape = index.shape();
  for (int axis = 1; axis < x.rank(); ++axis) {
    shape.push_back(x.shape()[axis]);
  }
  Tensor y = Tensor::empty(shape, x.dtype());
  kernels::gather_rows(y.raw(), x.raw(), ids.data<int64_t>(), ids.numel(),
                       bytes_of(x.dtype(), width));
  return record(op, y, {input}, [=, before = x.shape()](const Tensor& gradient) {
    const Tensor dy = gradient.contiguous();
    Tensor dx = Tensor::empty(before, dy.dtype());
    dispatch_float(dy.dtype(), op, [&](auto tag) {
      using T = decltype(tag);
      kernels::sum_rows_by_id(dx.data<T>(), dy.data<T>(), ids.data<int64_t>(), ids.numel(), rows,
                              width);
    });
    return std::vector{dx};
  });
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  const bool quantized = weight.defined() && is_quantized(weight.dtype());
  if (!quantized) {
    check_floating(weight, "embedding", "weight");
  }
  check(weight.rank() == 2, "embedding", "weight {}; [rows, width] is expected", weight.shape());
  const Tensor rows = rows_of("embedding", weight, ids);
  return quantized ? dequantize(rows) : rows;
}

Tensor index_rows(const Tensor& x, const Tensor& index) {
  check_defined(x, "index_rows");
  check(x.rank() > 0, "index_rows", "a scalar has no rows");
  check(!is_quantized(x.dtype()), "index_rows", "does not take {} tensors", name_of(x.dtype()));
  return rows_of("index_rows", x, index);
}

}  // namespace heed
