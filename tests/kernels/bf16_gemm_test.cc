// The product of bf16 numbers: a chain of additions to the bit, whatever instruction makes it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "kernels/arm_bf16.h"
#include "kernels/gemm.h"
#include "support/bf16_operand.h"
#include "support/check.h"
#include "support/op_case.h"
#include "support/software_tiles.h"

namespace heed::test {
namespace {

using kernels::Element;
using kernels::Matrix;

/// Without AMX tiles and BFMMLA, which add in other orders (tile_unit_test.cc, arm_bf16_test.cc).
class Bf16Gemm : public ::testing::Test {
  void SetUp() override { kernels::use_arm_bf16(false); }
  void TearDown() override { kernels::use_arm_bf16(true); }
  const ScopedTileUnit none_{nullptr};
};

/// Runs fn with the instructions, if this machine has them, and without, on every target.
template <class Fn>
void with_and_without_instructions(Fn&& fn) {
  for_each_target([&](const char* target) {
    for (const bool wanted : {false, true}) {
      kernels::use_bf16_instructions(wanted);
      fn(fmt::format("{}{}", target, wanted ? " with bf16 instructions" : ""));
    }
  });
  kernels::use_bf16_instructions(true);
}

TEST_F(Bf16Gemm, IsAChainOverKToTheBit) {
  for (const auto& [m, n, k] :
       {std::tuple{1, 1, 1}, std::tuple{3, 5, 2}, std::tuple{13, 33, 31}, std::tuple{12, 32, 64},
        std::tuple{50, 70, 33}, std::tuple{13, 33, 1601}, std::tuple{150, 20, 100}}) {
    for (const DType b_type : {DType::bf16, DType::f32, DType::f16}) {
      for (const int order : {0, 1, 2, 3}) {
        const Bf16Operand a(m, k, DType::bf16, (order & 1) != 0, 1);
        const Bf16Operand b(k, n, b_type, (order & 2) != 0, 2);
        const float start = order == 1 ? 0.5f : 0.0f;
        std::vector<float> wanted(static_cast<size_t>(m * n));
        for (int64_t r = 0; r < m; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            float sum = start;
            for (int64_t i = 0; i < k; ++i) {
              sum = std::fma(a.at(r, i), b.at(i, c), sum);
            }
            wanted[static_cast<size_t>(r * n + c)] = sum;
          }
        }
        with_and_without_instructions([&, m = m, n = n, k = k](const std::string& how) {
          EXPECT_EQ(product({m, n, k}, a.matrix, b.matrix, start), wanted)
              << how << ", " << m << " x " << n << " x " << k << ", " << name_of(b_type)
              << ", order " << order;
        });
      }
    }
  }
}

/// Neither k nor the columns are adjacent in memory.
TEST_F(Bf16Gemm, TakesAnyStrides) {
  constexpr int64_t kM = 7, kN = 19, kK = 21;
  const Bf16Operand a(2 * kM, 3 * kK, DType::bf16, false, 3);
  const Bf16Operand b(2 * kK, 3 * kN, DType::f32, false, 4);
  const Matrix some_a{a.stored.raw(), Element::bf16, 2 * 3 * kK, 3};
  const Matrix some_b{b.stored.raw(), Element::f32, 2 * 3 * kN, 3};
  with_and_without_instructions([&](const std::string& how) {
    const std::vector<float> c = product({kM, kN, kK}, some_a, some_b, 0.0f);
    for (int64_t r = 0; r < kM; ++r) {
      for (int64_t col = 0; col < kN; ++col) {
        float sum = 0.0f;
        for (int64_t i = 0; i < kK; ++i) {
          sum = std::fma(a.at(2 * r, 3 * i), b.at(2 * i, 3 * col), sum);
        }
        ASSERT_EQ(c[static_cast<size_t>(r * kN + col)], sum) << how << " " << r << " " << col;
      }
    }
  });
}

/// A row's result does not depend on the rows beside it, the number of threads, or the instruction.
TEST_F(Bf16Gemm, GivesTheSameBitsInAnyBatchAndOnAnyThreads) {
  const int before = thread_count();
  for (const auto& [m, n, k] : {std::tuple{260, 500, 1700}, std::tuple{500, 260, 1700}}) {
    const Tensor x = random_normal({m, k}, DType::f32, 6).to(DType::bf16);
    for (const DType type : {DType::f32, DType::bf16}) {
      const Tensor w = random_normal({n, k}, DType::f32, 7).to(type);
      const Tensor bias = random_normal({n}, DType::f32, 8);
      const LinearOptions gelu{.activation = Activation::gelu};
      set_thread_count(1);
      kernels::use_bf16_instructions(false);
      const Tensor plain = linear(x, w, bias, gelu);
      kernels::use_bf16_instructions(true);
      for (const int threads : {1, 3}) {
        set_thread_count(threads);
        expect_same_bits(linear(x, w, bias, gelu), plain, fmt::format("{} threads", threads));
        for (const int64_t rows : {1, 2, 17, 40}) {
          expect_same_bits(linear(slice(x, 0, m - rows, m), w, bias, gelu),
                           slice(plain, 0, m - rows, m).contiguous(), fmt::format("{} rows", rows));
        }
      }
    }
  }
  set_thread_count(before);
}

TEST_F(Bf16Gemm, KeepsInfinityAndNan) {
  constexpr int64_t kM = 14, kN = 40, kK = 37;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tensor x = Tensor::full({kM, kK}, 1.0, DType::f32);
  x.data<float>()[0 * kK + 3] = kInfinity;
  x.data<float>()[1 * kK + 36] = std::numeric_limits<float>::quiet_NaN();
  const Tensor w = Tensor::full({kN, kK}, 2.0, DType::f32);
  with_and_without_instructions([&](const std::string& how) {
    const Tensor y = linear(x.to(DType::bf16), w, {}).to(DType::f32);
    for (int64_t c = 0; c < kN; ++c) {
      EXPECT_EQ(y.data<float>()[c], kInfinity) << how;
      EXPECT_TRUE(std::isnan(y.data<float>()[kN + c])) << how;
      for (int64_t r = 2; r < kM; ++r) {
        EXPECT_EQ(y.data<float>()[r * kN + c], 74.0f) << how;
      }
    }
  });
}

/// The one difference between machines: the instruction takes subnormal numbers for zero.
TEST_F(Bf16Gemm, TakesSubnormalNumbersForZeroOrForThemselves) {
  const Tensor x = Tensor::full({2, 2}, 1e-39, DType::f32).to(DType::bf16);
  const Tensor w = Tensor::full({2, 2}, 1.0, DType::f32).to(DType::bf16);
  const float one = x.to(DType::f32).data<float>()[0];
  ASSERT_GT(one, 0.0f);
  with_and_without_instructions([&](const std::string& how) {
    const float y = linear(x, w, {}).to(DType::f32).data<float>()[0];
    EXPECT_TRUE(y == 0.0f || y == 2 * one) << how << " " << y;
  });
}

}  // namespace
}  // namespace heed::test
