#include "base/check.h"
#include "base/parallel.h"
#include "heed/ops.h"
#include "ops/common.h"
#include "ops/matrix.h"

namespace heed {

kernels::Element element_of(DType type, const char* op) {
  switch (type) {
    case DType::f32:
      return kernels::Element::f32;
    case DType::f64:
      return kernels::Element::f64;
    case DType::f16:
      return kernels::Element::f16;
    case DType::bf16:
      return kernels::Element::bf16;
    default:
      break;
  }
  fail(ErrorKind::runtime, op, "takes floating tensors, not {}", name_of(type));
}

kernels::Matrix matrix_of(const Tensor& x, const char* op, int64_t offset) {
  kernels::Matrix matrix;
  matrix.type = element_of(x.dtype(), op);
  matrix.data = static_cast<const char*>(x.raw()) + offset * kernels::element_size(matrix.type);
  matrix.row_stride = x.strides()[x.rank() - 2];
  matrix.column_stride = x.strides()[x.rank() - 1];
  return matrix;
}

kernels::Matrix transposed(kernels::Matrix matrix) {
  std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}

namespace {

constexpr int64_t kSmallProduct = int64_t{1}
                                  << 22;  // multiply-adds; below, whole products are tiles

Shape leading(const Shape& shape) {
  return Shape(shape.begin(), static_cast<size_t>(shape.rank() - 2));
}

/// Offset of batch item `index` (row-major over `batch`) in a tensor whose leading axes broadcast.
int64_t batch_offset(int64_t index, const Shape& batch, const Tensor& x) {
  const int lead = x.rank() - 2;
  int64_t offset = 0;
  for (int axis = batch.rank() - 1, own = lead - 1; own >= 0; --axis, --own) {
    const int64_t i = index % batch[axis];
    index /= batch[axis];
    offset += x.shape()[own] == 1 ? 0 : i * x.strides()[own];
  }
  return offset;
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  const int64_t m = a.size(-2);
  const int64_t k = a.size(-1);
  const int64_t n = b.size(-1);
  const Shape batch = broadcast_shapes(leading(a.shape()), leading(b.shape()), "matmul");
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Tensor y = Tensor::empty(shape, a.dtype());
  const kernels::Element type = element_of(y.dtype(), "matmul");
  const int64_t items = batch.numel();
  if (b.rank() == 2 && a.is_contiguous()) {  // one product over all rows
    kernels::Matrix rows = matrix_of(a, "matmul");
    rows.row_stride = k;
    kernels::gemm({.m = items * m,
                   .n = n,
                   .k = k,
                   .a = rows,
                   .b = matrix_of(b, "matmul"),
                   .c = y.raw(),
                   .c_type = type,
                   .c_stride = n});
    return y;
  }
  auto one = [&](int64_t item) {
    char* c = static_cast<char*>(y.raw()) + item * m * n * kernels::element_size(type);
    kernels::gemm({.m = m,
                   .n = n,
                   .k = k,
                   .a = matrix_of(a, "matmul", batch_offset(item, batch, a)),
                   .b = matrix_of(b, "matmul", batch_offset(item, batch, b)),
                   .c = c,
                   .c_type = type,
                   .c_stride = n});
  };
  if (m * n * k <= kSmallProduct) {
    parallel_for(items, one);
  } else {
    for (int64_t item = 0; item < items; ++item) {
      one(item);
    }
  }
  return y;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check(a.rank() >= 2 && b.rank() >= 2, "matmul", "takes matrices, not {} and {}", a.shape(),
        b.shape());
  check(a.size(-1) == b.size(-2), "matmul", "inner dimensions of {} and {} differ", a.shape(),
        b.shape());
  check(a.dtype() == b.dtype(), "matmul", "takes two tensors of one type, not {} and {}",
        name_of(a.dtype()), name_of(b.dtype()));
  Tensor y = multiply(a, b);
  return record("matmul", y, {a, b},
                [a = Saved(a), b = Saved(b), want_a = a.requires_grad(),
                 want_b = b.requires_grad()](const Tensor& dy) -> std::vector<Tensor> {
                  Tensor da;
                  Tensor db;
                  if (want_a) {
                    da = sum_to(multiply(dy, transpose(b.get())), a.get().shape());
                  }
                  if (want_b) {
                    db = sum_to(multiply(transpose(a.get()), dy), b.get().shape());
                  }
                  return {da, db};
                });
}

}  // namespace heed
