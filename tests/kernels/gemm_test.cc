// The f32 product: every element is one chain over k to the bit, whichever way it is computed.
#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

using kernels::Element;
using kernels::Epilogue;
using kernels::Matrix;

/// One product: its size, which operands lie along their columns, and what C holds before.
struct Case {
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;

  std::string name() const {
    return std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
           (transpose_a ? ", A along rows" : "") + (transpose_b ? ", B along k" : "") +
           (accumulate ? ", added to C" : "");
  }
};

Matrix matrix(const Tensor& memory, int64_t rows, int64_t columns, bool transposed) {
  return {memory.raw(), Element::f32, transposed ? 1 : columns, transposed ? rows : 1};
}

float at(const Matrix& m, int64_t r, int64_t c) {
  return static_cast<const float*>(m.data)[r * m.row_stride + c * m.column_stride];
}

/// Rows in place, columns in place, panels of B beside them, few rows, many rows and several blocks
/// of k; sizes that fill the registers, that do not, and that need half of a panel.
std::vector<Case> cases() {
  std::vector<Case> all;
  const int64_t sizes[][3] = {{1, 1, 1},     {3, 5, 7},      {12, 32, 16},  {16, 16, 16},
                              {13, 48, 33},  {40, 65, 64},   {64, 64, 64},  {5, 100, 200},
                              {60, 129, 70}, {150, 40, 300}, {33, 80, 900}, {300, 70, 260}};
  for (const auto& size : sizes) {
    for (const int order : {0, 1, 2, 3}) {
      all.push_back({size[0], size[1], size[2], (order & 1) != 0, (order & 2) != 0, order == 1});
    }
  }
  return all;
}

TEST(Gemm, EveryElementIsAChainOverKToTheBit) {
  for (const Case& one : cases()) {
    const Tensor a_memory = random_normal({one.m * one.k}, DType::f32, 1);
    const Tensor b_memory = random_normal({one.k * one.n}, DType::f32, 2);
    const Tensor bias = random_normal({one.n}, DType::f32, 3);
    const Matrix a = matrix(a_memory, one.m, one.k, one.transpose_a);
    const Matrix b = matrix(b_memory, one.k, one.n, one.transpose_b);
    const float start = one.accumulate ? 0.5f : 0.0f;
    for_each_target([&](const char* target) {
      const bool fused = !std::string_view(target).starts_with("SS");  // SSSE3, SSE4
      std::vector<float> c(static_cast<size_t>(one.m * one.n), start);
      Epilogue epilogue;
      epilogue.bias = bias.raw();
      kernels::gemm({.m = one.m,
                     .n = one.n,
                     .k = one.k,
                     .a = a,
                     .b = b,
                     .c = c.data(),
                     .c_stride = one.n,
                     .accumulate = one.accumulate,
                     .epilogue = epilogue});
      for (int64_t r = 0; r < one.m; ++r) {
        for (int64_t column = 0; column < one.n; ++column) {
          float sum = start;
          for (int64_t i = 0; i < one.k; ++i) {
            const float x = at(a, r, i);
            const float y = at(b, i, column);
            sum = fused ? std::fma(x, y, sum) : x * y + sum;
          }
          ASSERT_EQ(c[static_cast<size_t>(r * one.n + column)], sum + bias.data<float>()[column])
              << target << ", " << one.name() << ", row " << r << ", column " << column;
        }
      }
    });
  }
}

/// What is around a piece of C that is narrower than a panel stays as it was.
TEST(Gemm, WritesNothingBesideItsColumns) {
  constexpr int64_t kM = 20, kK = 24, kStride = 70;
  const Tensor a = random_normal({kM, kK}, DType::f32, 4);
  for (const int64_t n : {1, 15, 16, 17, 32, 48, 63}) {
    const Tensor b = random_normal({kK, n}, DType::f32, 5);
    for_each_target([&](const char* target) {
      std::vector<float> c(kM * kStride, 7.0f);
      kernels::gemm({.m = kM,
                     .n = n,
                     .k = kK,
                     .a = matrix(a, kM, kK, false),
                     .b = matrix(b, kK, n, false),
                     .c = c.data(),
                     .c_stride = kStride});
      for (int64_t r = 0; r < kM; ++r) {
        for (int64_t column = n; column < kStride; ++column) {
          ASSERT_EQ(c[static_cast<size_t>(r * kStride + column)], 7.0f)
              << target << ", " << n << " columns, row " << r << ", column " << column;
        }
      }
    });
  }
}

/// A row's result depends neither on the rows beside it nor on the number of threads.
TEST(Gemm, SmallAndMiddlingProductsGiveTheSameBitsInAnyBatch) {
  const int before = thread_count();
  const Tensor x = random_normal({170, 200}, DType::f32, 6);
  for (const int64_t n : {24, 64, 300}) {
    const Tensor w = random_normal({n, 200}, DType::f32, 7);
    set_thread_count(1);
    const Tensor alone = linear(x, w, {});
    for (const int threads : {1, 3}) {
      set_thread_count(threads);
      expect_same_bits(linear(x, w, {}), alone, "all rows");
      for (const int64_t rows : {1, 3, 4, 20, 49, 100}) {
        expect_same_bits(linear(slice(x, 0, 0, rows), w, {}), slice(alone, 0, 0, rows).contiguous(),
                         std::to_string(rows) + " rows");
      }
    }
  }
  set_thread_count(before);
}

}  // namespace
}  // namespace heed::test
