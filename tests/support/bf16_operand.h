#pragma once

#include <vector>

#include "heed/ops.h"
#include "kernels/gemm.h"
#include "support/check.h"

namespace heed::test {

/// A [rows, columns] matrix of any 16- or 32-bit type and order, and its numbers rounded to bf16.
struct Bf16Operand {
  Bf16Operand(int64_t rows, int64_t columns, DType type, bool transposed, uint64_t seed)
      : stored(random_normal(transposed ? Shape{columns, rows} : Shape{rows, columns}, DType::f32,
                             seed)
                   .to(type)),
        wide(stored.to(DType::bf16).to(DType::f32)),
        matrix{stored.raw(),
               type == DType::bf16  ? kernels::Element::bf16
               : type == DType::f16 ? kernels::Element::f16
                                    : kernels::Element::f32,
               transposed ? 1 : columns, transposed ? rows : 1} {}
  float at(int64_t r, int64_t c) const {
    return wide.data<float>()[r * matrix.row_stride + c * matrix.column_stride];
  }

  Tensor stored, wide;
  kernels::Matrix matrix;
};

struct ProductSizes {
  int64_t m, n, k;
};
/// a [m, k] · b [k, n] by gemm(), added to `start` where that is not 0.
inline std::vector<float> product(const ProductSizes& sizes, const kernels::Matrix& a,
                                  const kernels::Matrix& b, float start) {
  std::vector<float> c(static_cast<size_t>(sizes.m * sizes.n), start);
  kernels::gemm({.m = sizes.m,
                 .n = sizes.n,
                 .k = sizes.k,
                 .a = a,
                 .b = b,
                 .c = c.data(),
                 .c_stride = sizes.n,
                 .accumulate = start != 0.0f});
  return c;
}

}  // namespace heed::test
