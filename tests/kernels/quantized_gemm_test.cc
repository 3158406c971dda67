#include "kernels/quantized_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "heed/ops.h"
#include "heed/parallel.h"
#include "kernels/quantize.h"
#include "support/check.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

using kernels::Element;
using kernels::kBlock;

Element element(DType type) { return type == DType::q8_0 ? Element::q8_0 : Element::q4_0; }

/// x [m, k] · Wᵀ with W [n, k] quantised.
Tensor product(const Tensor& x, const Tensor& w) {
  Tensor y = Tensor::empty({x.size(0), w.size(0)});
  const int64_t k = x.size(1);
  kernels::quantized_gemm(x.size(0), w.size(0), k, {x.raw(), Element::f32, k, 1},
                          {w.raw(), element(w.dtype()), 1, k}, y.raw(), Element::f32, w.size(0));
  return y;
}

/// Every SIMD target, and AVX-512 also without its dot-product instructions.
template <class Fn>
void for_each_kernel(Fn&& fn) {
  for_each_target([&](const char* target) {
    for (const bool dot : {true, false}) {
      kernels::use_dot_instructions(dot);
      SCOPED_TRACE(std::string(target) + (dot ? "" : " without dot instructions"));
      fn();
    }
  });
  kernels::use_dot_instructions(true);
}

struct RoundedRow {
  std::vector<int> values;
  std::vector<double> scales;  // of each block
};

/// What the kernel makes of a row of activations, in plain code.
RoundedRow rounded(const float* x, int64_t k) {
  RoundedRow row;
  for (int64_t b = 0; b < k; b += kBlock) {
    float largest = 0.0f;
    for (int64_t i = 0; i < kBlock; ++i) {
      largest = std::max(largest, std::abs(x[b + i]));
    }
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (int64_t i = 0; i < kBlock; ++i) {
      row.values.push_back(static_cast<int>(std::nearbyint(x[b + i] * inverse)));
    }
    row.scales.push_back(largest / 127.0f);
  }
  return row;
}

class QuantizedGemm : public testing::TestWithParam<DType> {};

/// Against f64 from the dequantised weights and the rounded activations: only the chain over the
/// blocks rounds, three times a block (product of the scales, multiply, add), so the error is below
/// (blocks + 3) · eps of the sum of absolute terms. Against the exact activations the rounding of
/// x, half a step of its block's scale, comes on top.
TEST_P(QuantizedGemm, IsWithinItsErrorBound) {
  for (const auto& [m, n, k] :
       {std::tuple{1, 1, 32}, std::tuple{3, 37, 64}, std::tuple{7, 100, 544},
        std::tuple{40, 70, 1056}, std::tuple{2, 33, 3072}, std::tuple{3, 20, 4128}}) {
    const Tensor x = random_normal({m, k}, DType::f32, 1);
    const Tensor w = quantize(random_normal({n, k}, DType::f32, 2), GetParam());
    const std::vector<double> weights = dequantize(w).to_doubles();
    for_each_kernel([&] {
      const Tensor y = product(x, w);
      for (int64_t r = 0; r < m; ++r) {
        const float* row = x.data<float>() + r * k;
        const RoundedRow q = rounded(row, k);
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0.0, exact = 0.0, size = 0.0, step = 0.0;
          for (int64_t i = 0; i < k; ++i) {
            const double weight = weights[static_cast<size_t>(c * k + i)];
            const double scale = q.scales[static_cast<size_t>(i / kBlock)];
            const double term = weight * scale * q.values[static_cast<size_t>(i)];
            sum += term;
            exact += weight * row[i];
            size += std::abs(term);
            step += std::abs(weight) * scale * 0.5001;
          }
          const double eps = std::numeric_limits<float>::epsilon();
          const double allowed = (static_cast<double>(k) / kBlock + 3) * eps * size;
          const double actual = y.data<float>()[r * n + c];
          ASSERT_NEAR(actual, sum, allowed)
              << m << "x" << n << "x" << k << " at " << r << ", " << c;
          ASSERT_NEAR(actual, exact, allowed + step) << r << ", " << c;
        }
      }
    });
  }
}

/// Full-range weights and activations: where bytes would saturate.
TEST_P(QuantizedGemm, ExtremeWeightsAreExact) {
  constexpr int64_t k = 64;
  Tensor w = Tensor::empty({3, k}, GetParam());
  std::memset(w.raw(), 0, static_cast<size_t>(w.bytes()));
  const int largest = GetParam() == DType::q8_0 ? 127 : 7;
  const int smallest = GetParam() == DType::q8_0 ? -128 : -8;
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t b = 0; b < k / kBlock; ++b) {
      const auto at = static_cast<size_t>(row * k / kBlock + b);
      const auto value = [&](int64_t i) {
        return row == 0 || (row == 2 && i % 2 == 1) ? smallest : largest;
      };
      if (GetParam() == DType::q8_0) {
        auto& block = static_cast<kernels::BlockQ8*>(w.raw())[at];
        block.scale = to_half(1.0f);
        for (int64_t i = 0; i < kBlock; ++i) {
          block.values[i] = static_cast<int8_t>(value(i));
        }
      } else {
        auto& block = static_cast<kernels::BlockQ4*>(w.raw())[at];
        block.scale = to_half(1.0f);
        for (int64_t i = 0; i < kBlock / 2; ++i) {
          block.pairs[i] = static_cast<uint8_t>((value(i) + 8) | (value(kBlock / 2 + i) + 8) << 4);
        }
      }
    }
  }
  for (const float sign : {1.0f, -1.0f}) {
    const Tensor x = Tensor::full({2, k}, sign * 127.0f);
    for_each_kernel([&] {
      const Tensor y = product(x, w);
      for (int64_t r = 0; r < 2; ++r) {
        EXPECT_EQ(y.data<float>()[r * 3], sign * 127.0f * static_cast<float>(k * smallest));
        EXPECT_EQ(y.data<float>()[r * 3 + 1], sign * 127.0f * static_cast<float>(k * largest));
        EXPECT_EQ(y.data<float>()[r * 3 + 2],
                  sign * 127.0f * static_cast<float>(k / 2 * (smallest + largest)));
      }
    });
  }
}

TEST_P(QuantizedGemm, ARowGivesTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  for (const auto& [n, k] : {std::pair{67, 96}, std::pair{300, 800}, std::pair{19, 3264}}) {
    const Tensor x = random_normal({512, k}, DType::f32, 4);
    const Tensor w = quantize(random_normal({n, k}, DType::f32, 5), GetParam());
    for_each_kernel([&] {
      set_thread_count(1);
      const Tensor all = product(x, w);
      for (const int threads : {2, 5}) {
        set_thread_count(threads);
        expect_same_bits(product(x, w), all, "threads");
        for (const int64_t rows : {1, 2, 5, 16, 32, 33, 147}) {
          expect_same_bits(product(slice(x, 0, 9, 9 + rows), w),
                           slice(all, 0, 9, 9 + rows).contiguous(), std::to_string(rows) + " rows");
        }
      }
      set_thread_count(2);
    });
  }
}

/// Whole numbers are exact and the targets that have a fused multiply-add give the same bits.
TEST_P(QuantizedGemm, DotInstructionsGiveTheBitsOfTheOthers) {
  const Tensor x = random_normal({13, 1024}, DType::f32, 4);
  const Tensor w = quantize(random_normal({50, 1024}, DType::f32, 5), GetParam());
  for_each_target([&](const char* target) {
    kernels::use_dot_instructions(true);
    const Tensor with = product(x, w);
    kernels::use_dot_instructions(false);
    expect_same_bits(product(x, w), with, target);
  });
  kernels::use_dot_instructions(true);
}

TEST_P(QuantizedGemm, ActivationsThatAreNotFiniteSpoilTheirRowOnly) {
  constexpr int64_t k = 96;
  const Tensor clean = random_normal({5, k}, DType::f32, 4);
  const Tensor w = quantize(random_normal({40, k}, DType::f32, 5), GetParam());
  Tensor x = clean.clone();
  x.data<float>()[k + 40] = std::numeric_limits<float>::quiet_NaN();
  x.data<float>()[2 * k] = std::numeric_limits<float>::infinity();
  x.data<float>()[3 * k + 95] = -std::numeric_limits<float>::infinity();
  for_each_kernel([&] {
    const Tensor expected = product(clean, w);
    const Tensor y = product(x, w);
    for (int64_t c = 0; c < 40; ++c) {
      for (int64_t r = 0; r < 5; ++r) {
        const float value = y.data<float>()[r * 40 + c];
        if (r == 0 || r == 4) {
          EXPECT_EQ(value, expected.data<float>()[r * 40 + c]);
        } else {
          EXPECT_TRUE(std::isnan(value)) << r << ", " << c << ": " << value;
        }
      }
    }
  });
}

TEST_P(QuantizedGemm, TinyAndZeroActivationsGiveZero) {
  const Tensor w = quantize(random_normal({9, 32}, DType::f32, 5), GetParam());
  for (const float value : {0.0f, -0.0f, 1e-45f, 1e-38f}) {
    const Tensor x = Tensor::full({1, 32}, value);
    for_each_kernel([&] {
      const Tensor y = product(x, w);
      for (int64_t c = 0; c < 9; ++c) {
        EXPECT_NEAR(y.data<float>()[c], 0.0f, 1e-35f);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedGemm, testing::Values(DType::q8_0, DType::q4_0),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace heed::test
