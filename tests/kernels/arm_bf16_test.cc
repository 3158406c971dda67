// The bf16 product on ARM's matrix instruction (BFMMLA): packing, edges and the order of its sums.
#include "kernels/arm_bf16.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "kernels/gemm.h"
#include "support/bf16_operand.h"
#include "support/check.h"

namespace heed::test {
namespace {

using kernels::ArmBf16State;
using kernels::Element;
using kernels::Matrix;

/// a + b rounded to odd: towards zero, and then the last bit is set unless the sum is exact.
/// Subnormal numbers are zero.
float add_to_odd(float a, float b) {
  const double x = a, y = b;
  const double sum = x + y;
  const double rest = (x - (sum - (sum - x))) + (y - (sum - x));  // what the sum has lost
  auto result = static_cast<float>(sum);
  if (std::abs(static_cast<double>(result)) > std::abs(sum) ||
      (static_cast<double>(result) == sum && rest != 0.0 && (rest < 0) != (sum < 0))) {
    result = std::nextafter(result, 0.0f);
  }
  if (static_cast<double>(result) != sum || rest != 0.0) {
    result = std::bit_cast<float>(std::bit_cast<uint32_t>(result) | 1u);
  }
  return std::abs(result) < std::numeric_limits<float>::min() ? std::copysign(0.0f, result)
                                                              : result;
}

/// An element of A · B + start in the order of the instruction: two products at a time. Products of
/// two bf16 are exact in f32.
float in_mmla_order(const Bf16Operand& a, const Bf16Operand& b, int64_t row, int64_t column,
                    int64_t k, float start) {
  float sum = start;
  for (int64_t i = 0; i < (k + 3) / 4 * 4; i += 2) {
    const auto term = [&](int64_t at) { return at < k ? a.at(row, at) * b.at(at, column) : 0.0f; };
    sum = add_to_odd(sum, add_to_odd(term(i), term(i + 1)));
  }
  return sum;
}

void expect_elements(const ProductSizes& sizes, const Bf16Operand& a, const Bf16Operand& b,
                     float start, const std::string& what) {
  const std::vector<float> c = product(sizes, a.matrix, b.matrix, start);
  for (int64_t r = 0; r < sizes.m; ++r) {
    for (int64_t j = 0; j < sizes.n; ++j) {
      ASSERT_EQ(c[static_cast<size_t>(r * sizes.n + j)], in_mmla_order(a, b, r, j, sizes.k, start))
          << what << " " << r << " " << j;
    }
  }
}

class ArmBf16 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernels::arm_bf16_state() == ArmBf16State::absent) {
      GTEST_SKIP() << "this processor has no BFMMLA";
    }
    ASSERT_EQ(kernels::arm_bf16_state(), ArmBf16State::in_use);
    ASSERT_TRUE(kernels::uses_arm_bf16());
  }
  void TearDown() override { kernels::use_arm_bf16(true); }
};

TEST_F(ArmBf16, AddsInTheOrderOfTheInstructionToTheBit) {
  for (const ProductSizes& sizes :
       {ProductSizes{1, 1, 1}, ProductSizes{3, 5, 2}, ProductSizes{8, 8, 16},
        ProductSizes{9, 17, 31}, ProductSizes{65, 70, 33}, ProductSizes{5, 9, 1601},
        ProductSizes{1, 100, 37}}) {
    const auto& [m, n, k] = sizes;
    for (const DType b_type : {DType::bf16, DType::f32, DType::f16}) {
      for (const int order : {0, 1, 2, 3}) {
        expect_elements(sizes, Bf16Operand(m, k, DType::bf16, (order & 1) != 0, 1),
                        Bf16Operand(k, n, b_type, (order & 2) != 0, 2), order == 1 ? 0.5f : 0.0f,
                        fmt::format("{} x {} x {}, {}, order {}", m, n, k, name_of(b_type), order));
      }
    }
  }
}

/// Neither k nor rows or columns are adjacent in memory.
TEST_F(ArmBf16, TakesAnyStrides) {
  constexpr ProductSizes kSizes{19, 37, 41};
  Bf16Operand a(2 * kSizes.m, 3 * kSizes.k, DType::bf16, false, 3);
  Bf16Operand b(2 * kSizes.k, 3 * kSizes.n, DType::f32, false, 4);
  for (Matrix* each : {&a.matrix, &b.matrix}) {
    each->row_stride *= 2;
    each->column_stride = 3;
  }
  expect_elements(kSizes, a, b, 0.0f, "strides");
}

/// A row's result does not depend on the rows beside it or on the number of threads.
TEST_F(ArmBf16, GivesTheSameBitsInAnyBatchAndOnAnyThreads) {
  constexpr int64_t kM = 70, kN = 72, kK = 1100;
  const int before = thread_count();
  const Tensor x = random_normal({kM, kK}, DType::f32, 6).to(DType::bf16);
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor w = random_normal({kN, kK}, DType::f32, 7).to(type);
    const Tensor bias = random_normal({kN}, DType::f32, 8);
    const LinearOptions gelu{.activation = Activation::gelu};
    set_thread_count(1);
    const Tensor all = linear(x, w, bias, gelu);
    set_thread_count(3);
    expect_same_bits(linear(x, w, bias, gelu), all, "3 threads");
    for (const int64_t rows : {1, 2, 7, 9, 65}) {
      expect_same_bits(linear(slice(x, 0, kM - rows, kM), w, bias, gelu),
                       slice(all, 0, kM - rows, kM).contiguous(), fmt::format("{} rows", rows));
    }
  }
  set_thread_count(before);
}

/// Whole numbers are exact in any order: bias, activation, residual and C's type must give the bits
/// that they give without the instruction. Operands of more than 2²⁰ numbers are packed in parts.
TEST_F(ArmBf16, FinishesAsOtherProductsDo) {
  const auto whole = [](const Shape& shape, DType type, uint64_t seed) {
    return add(random_indices(shape, 9, seed).to(DType::f32), Tensor::full({1}, -4.0, DType::f32))
        .to(type);
  };
  for (const ProductSizes& sizes : {ProductSizes{77, 90, 50}, ProductSizes{12, 9, 100000}}) {
    const auto& [m, n, k] = sizes;
    const Tensor x = whole({m, k}, DType::bf16, 1);
    const Tensor w = whole({n, k}, DType::bf16, 2);
    for (const DType type : {DType::f32, DType::bf16}) {
      const Tensor bias = whole({n}, type, 3);
      const Tensor residual = whole({m, n}, type, 4);
      const auto finished = [&](bool instruction) {
        kernels::use_arm_bf16(instruction);
        Tensor c = Tensor::full({m, n + 7}, 5.0, type);
        kernels::gemm({.m = m,
                       .n = n,
                       .k = k,
                       .a = {x.raw(), Element::bf16, k, 1},
                       .b = {w.raw(), Element::bf16, 1, k},
                       .c = c.raw(),
                       .c_type = type == DType::f32 ? Element::f32 : Element::bf16,
                       .c_stride = n + 7,
                       .epilogue = {.bias = bias.raw(),
                                    .activation = kernels::Unary::gelu,
                                    .residual = residual.raw(),
                                    .residual_stride = n}});
        return c;
      };
      expect_same_bits(finished(true), finished(false), fmt::format("{} x {}", m, n));
    }
  }
}

TEST_F(ArmBf16, KeepsInfinityAndNanToTheirRows) {
  constexpr ProductSizes kSizes{11, 19, 37};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tensor x = Tensor::full({kSizes.m, kSizes.k}, 1.0, DType::f32);
  x.data<float>()[0 * kSizes.k + 3] = kInfinity;
  x.data<float>()[1 * kSizes.k + 36] = std::numeric_limits<float>::quiet_NaN();
  const Tensor w = Tensor::full({kSizes.n, kSizes.k}, 2.0, DType::f32);
  const Tensor y = linear(x.to(DType::bf16), w, {}).to(DType::f32);
  for (int64_t c = 0; c < kSizes.n; ++c) {
    EXPECT_EQ(y.data<float>()[c], kInfinity);
    EXPECT_TRUE(std::isnan(y.data<float>()[kSizes.n + c]));
    for (int64_t r = 2; r < kSizes.m; ++r) {
      EXPECT_EQ(y.data<float>()[r * kSizes.n + c], 74.0f);
    }
  }
}

TEST_F(ArmBf16, TakesSubnormalNumbersForZeroAndGivesZerosWithoutK) {
  const Tensor x = Tensor::full({2, 2}, 1e-39, DType::f32).to(DType::bf16);
  const Tensor w = Tensor::full({2, 2}, 1.0, DType::f32).to(DType::bf16);
  EXPECT_EQ(linear(x, w, {}).to(DType::f32).data<float>()[0], 0.0f);
  const BFloat16 none{};
  EXPECT_EQ(product({3, 40, 0}, {&none, Element::bf16, 1, 1}, {&none, Element::bf16, 40, 1}, 0.0f),
            std::vector<float>(120, 0.0f));
}

/// What `heed doctor` says in an environment.
std::string doctor(const std::string& environment) {
  const char* program = std::getenv("HEED_PROGRAM");
  if (program == nullptr) {
    return "";
  }
  const std::string command = fmt::format("LC_ALL=C {} '{}' doctor 2>&1", environment, program);
  std::string said;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    said.append(buffer.data(), n);
  }
  pclose(pipe);
  return said;
}

TEST_F(ArmBf16, IsSwitchedOffByTheEnvironmentAndShownByTheDoctor) {
  if (doctor("").empty()) {
    GTEST_SKIP() << "HEED_PROGRAM does not name the program";
  }
  EXPECT_NE(doctor("").find("BFMMLA\n"), std::string::npos) << doctor("");
  EXPECT_NE(doctor("HEED_ARM_BF16=off").find("BFMMLA is switched off"), std::string::npos);
}

}  // namespace
}  // namespace heed::test
