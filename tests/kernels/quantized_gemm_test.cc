#include "kernels/quantized_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "kernels/interleave.h"
#include "kernels/quantize.h"
#include "ops/quantized.h"
#include "support/check.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

using kernels::Element;
using kernels::kBlock;

/// n rows of k weights of any block type. Types that are only read get random bytes whose weights
/// are finite and below 1000.
Tensor random_weights(int64_t n, int64_t k, DType type, uint64_t seed) {
  const Tensor values = random_normal({n, k}, DType::f32, seed);
  if (kernels::can_quantize(quantized_element(type))) {
    return quantize(values, type);
  }
  const Tensor blocks = Tensor::empty({n, k}, type);
  const int64_t bytes = bytes_of(type, block_of(type));
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int64_t b = 0; b < n * k / block_of(type); ++b) {
    auto* block = static_cast<uint8_t*>(blocks.raw()) + b * bytes;
    std::vector<float> weights(static_cast<size_t>(block_of(type)));
    const auto usable = [&] {
      kernels::dequantize(quantized_element(type), block, weights.data(), block_of(type));
      return std::all_of(weights.begin(), weights.end(),
                         [](float weight) { return std::abs(weight) < 1000.0f; });
    };
    do {
      std::generate_n(block, bytes, [&] { return static_cast<uint8_t>(random()); });
    } while (!usable());
  }
  return blocks;
}

/// x [m, k] · Wᵀ with W [n, k] quantised.
Tensor product(const Tensor& x, const Tensor& w) {
  Tensor y = Tensor::empty({x.size(0), w.size(0)});
  const int64_t k = x.size(1);
  kernels::quantized_gemm({.m = x.size(0),
                           .n = w.size(0),
                           .k = k,
                           .a = {x.raw(), Element::f32, k, 1},
                           .b = {w.raw(), quantized_element(w.dtype()), 1, k},
                           .c = y.raw(),
                           .c_stride = w.size(0)});
  return y;
}

/// Every SIMD target, and AVX-512 and NEON also without their dot-product and matrix instructions.
template <class Fn>
void for_each_kernel(Fn&& fn) {
  for_each_target([&](const char* target) {
    if (kernels::uses_matrix_instructions()) {
      SCOPED_TRACE(std::string(target) + " with matrix instructions");
      fn();
    }
    kernels::use_matrix_instructions(false);
    for (const bool dot : {true, false}) {
      kernels::use_dot_instructions(dot);
      SCOPED_TRACE(std::string(target) + (dot ? "" : " without dot instructions"));
      fn();
    }
    kernels::use_dot_instructions(true);
    kernels::use_matrix_instructions(true);
  });
}

struct RoundedRow {
  std::vector<int> values;
  std::vector<double> scales;  // of each block
};

/// What the kernel makes of a row of activations, in plain code.
RoundedRow rounded(const float* x, int64_t k, int64_t block) {
  RoundedRow row;
  for (int64_t b = 0; b < k; b += block) {
    float largest = 0.0f;
    for (int64_t i = 0; i < block; ++i) {
      largest = std::max(largest, std::abs(x[b + i]));
    }
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (int64_t i = 0; i < block; ++i) {
      row.values.push_back(static_cast<int>(std::nearbyint(x[b + i] * inverse)));
    }
    row.scales.push_back(largest / 127.0f);
  }
  return row;
}

/// An upper bound of what a row's minima add to and take from its weights.
double largest_min(const Tensor& w, int64_t row) {
  double largest = 0.0;
  const int64_t blocks = w.size(1) / block_of(w.dtype());
  const int64_t bytes = bytes_of(w.dtype(), block_of(w.dtype()));
  const auto* first = static_cast<const char*>(w.raw()) + row * blocks * bytes;
  kernels::with_block_of(quantized_element(w.dtype()), [&]<class Block>(const Block*) {
    kernels::UnpackedBlock whole;
    for (int64_t b = 0; b < blocks; ++b) {
      kernels::unpack(reinterpret_cast<const Block*>(first)[b], whole);
      for (const int16_t min : whole.mins) {
        largest = std::max(largest, std::abs(static_cast<double>(whole.min) * min));
      }
    }
  });
  return largest;
}

class QuantizedGemm : public testing::TestWithParam<DType> {};

/// Against f64 from the dequantised weights and the rounded activations: only the chain over the
/// blocks rounds, three times per term (product of the scales, multiply, add), and a block gives
/// one term or, with minima, two: the error is below (2 · blocks + 6) · eps of the absolute terms,
/// where a weight scale · q − min counts with both of its parts. Against the exact activations the
/// rounding of x, half a step of its block's scale, comes on top.
TEST_P(QuantizedGemm, IsWithinItsErrorBound) {
  const int64_t block = block_of(GetParam());
  const int64_t most = block == kBlock ? 4128 : 9216;
  for (const auto& [m, n, blocks] :
       {std::tuple{1, 1, 1}, std::tuple{3, 37, 2}, std::tuple{7, 100, 17}, std::tuple{40, 70, 33},
        std::tuple{2, 33, 96}, std::tuple{3, 20, 129}}) {
    const int64_t k = std::min(blocks * block, most);
    const Tensor x = random_normal({m, k}, DType::f32, 1);
    const Tensor w = random_weights(n, k, GetParam(), 2);
    const std::vector<double> weights = dequantize(w).to_doubles();
    std::vector<double> mins;
    for (int64_t c = 0; c < n; ++c) {
      mins.push_back(largest_min(w, c));
    }
    for_each_kernel([&, m = m, n = n] {
      const Tensor y = product(x, w);
      for (int64_t r = 0; r < m; ++r) {
        const float* row = x.data<float>() + r * k;
        const RoundedRow q = rounded(row, k, block);
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0.0, exact = 0.0, size = 0.0, step = 0.0;
          const double min = mins[static_cast<size_t>(c)];
          for (int64_t i = 0; i < k; ++i) {
            const double weight = weights[static_cast<size_t>(c * k + i)];
            const double scale = q.scales[static_cast<size_t>(i / block)];
            const double term = weight * scale * q.values[static_cast<size_t>(i)];
            sum += term;
            exact += weight * row[i];
            size += std::abs(term) + 2.0 * min * scale * std::abs(q.values[static_cast<size_t>(i)]);
            step += std::abs(weight) * scale * 0.5001;
          }
          const double eps = std::numeric_limits<float>::epsilon();
          const double allowed = (2.0 * static_cast<double>(k / block) + 6) * eps * size;
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
class PlainGemm : public testing::TestWithParam<DType> {};
TEST_P(PlainGemm, ExtremeWeightsAreExact) {
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

/// Every byte of a block 0xff, 0x80 or 0, its scales 1: where sums of bytes would saturate. Sums
/// stay below 2^24 · 16 and the activations are whole numbers, so that only the last rounding is
/// left.
TEST_P(QuantizedGemm, ExtremeBlocksDoNotSaturate) {
  const DType type = GetParam();
  const int64_t k = 2 * block_of(type);
  const Tensor w = Tensor::empty({3, k}, type);
  const int64_t bytes = bytes_of(type, block_of(type));
  const uint8_t fills[] = {0xff, 0x80, 0};
  kernels::with_block_of(quantized_element(type), [&]<class Block>(const Block*) {
    for (int64_t b = 0; b < 6; ++b) {
      auto* raw = static_cast<uint8_t*>(w.raw()) + b * bytes;
      std::memset(raw, fills[b / 2], static_cast<size_t>(bytes));
      [[maybe_unused]] auto& block = *reinterpret_cast<Block*>(raw);
      if constexpr (requires { block.scale = to_half(1.0f); }) {
        block.scale = to_half(1.0f);
      }
      if constexpr (requires { block.min = to_half(1.0f); }) {
        block.min = to_half(1.0f);
      }
      if constexpr (requires { block.exponent = 128; }) {
        block.exponent = 128;
      }
      if constexpr (std::is_same_v<Block, kernels::BlockIQ1M>) {  // 1.0 in the four top nibbles
        const uint8_t low = static_cast<uint8_t>(fills[b / 2] & 15);
        for (int i = 0; i < 4; ++i) {
          block.scales[2 * i + 1] = static_cast<uint8_t>(low | (0x3c00 >> (4 * i) & 15) << 4);
        }
      }
    }
  });
  const Tensor weights = dequantize(w);
  for (const float sign : {1.0f, -1.0f}) {
    const Tensor x = Tensor::full({12, k}, sign * 127.0f);
    for_each_kernel([&] {
      const Tensor y = product(x, w);
      for (int64_t c = 0; c < 3; ++c) {
        double expected = 0.0;
        double size = 0.0;
        for (int64_t i = 0; i < k; ++i) {
          const double term = 127.0 * static_cast<double>(weights.data<float>()[c * k + i]);
          expected += sign * term;
          size += std::abs(term);
        }
        for (int64_t r = 0; r < 12; ++r) {
          EXPECT_NEAR(y.data<float>()[r * 3 + c], expected, 8e-7 * (size + 1e5)) << r << ", " << c;
        }
      }
    });
  }
}

TEST_P(QuantizedGemm, ARowGivesTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  const bool plain = block_of(GetParam()) == kBlock;
  for (const auto& [n, blocks] : {std::pair{67, 3}, std::pair{300, 25}, std::pair{19, 102}}) {
    const int64_t k = plain ? blocks * kBlock : (blocks + 2) / 3 * 256;
    const Tensor x = random_normal({plain ? 512 : 300, k}, DType::f32, 4);
    const Tensor w = random_weights(n, k, GetParam(), 5);
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
  const Tensor w = random_weights(50, 1024, GetParam(), 5);
  for_each_target([&](const char* target) {
    kernels::use_dot_instructions(true);
    const Tensor with = product(x, w);
    kernels::use_dot_instructions(false);
    expect_same_bits(product(x, w), with, target);
  });
  kernels::use_dot_instructions(true);
}

/// x [m, k] · Wᵀ from interleaved weights.
Tensor interleaved_product(const Tensor& x, const Tensor& w) {
  const Element type = quantized_element(w.dtype());
  const int64_t n = w.size(0);
  const int64_t k = w.size(1);
  const Tensor copy = Tensor::empty({kernels::interleaved_bytes(type, n, k)}, DType::u8);
  kernels::interleave(type, w.raw(), n, k, copy.raw());
  Tensor y = Tensor::empty({x.size(0), n});
  const kernels::Matrix b{nullptr, type, 1, k, copy.raw()};
  kernels::interleaved_gemm({.m = x.size(0),
                             .n = n,
                             .k = k,
                             .a = {x.raw(), Element::f32, k, 1},
                             .b = b,
                             .c = y.raw(),
                             .c_stride = n});
  return y;
}

/// Groups of 16 columns, one that is not full, spans of k, every count of rows of the kernels,
/// tiles of rows; a NaN in one row.
TEST_P(QuantizedGemm, InterleavedWeightsGiveTheSameBits) {
  const DType type = GetParam();
  if (kernels::interleaved_bytes(quantized_element(type), 16, 256) == 0) {
    GTEST_SKIP() << name_of(type) << " is read in the file's order only";
  }
  for (const auto& [n, k] :
       {std::pair{20, 96}, std::pair{16, 256}, std::pair{35, 768}, std::pair{300, 2304}}) {
    if (k % block_of(type) != 0) {
      continue;
    }
    const Tensor w = random_weights(n, k, type, 5);
    for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 13, 205}) {
      Tensor x = random_normal({m, k}, DType::f32, 4);
      if (m == 7) {
        x.data<float>()[3 * k + 5] = std::numeric_limits<float>::quiet_NaN();
      }
      for_each_kernel([&, n = n] {
        if (!kernels::multiplies_interleaved()) {
          return;
        }
        for (const int threads : {1, 2}) {
          set_thread_count(threads);
          expect_same_bits(interleaved_product(x, w), product(x, w),
                           std::to_string(m) + " rows, " + std::to_string(n) + " columns");
        }
      });
    }
  }
}

/// In place of what a loaded model's weights go through: made at the second product with few rows,
/// read by all later ones, also through a transposed view; with many rows at the first one.
TEST_P(QuantizedGemm, LinearReadsInterleavedWeights) {
  const Tensor x = random_normal({3, 512}, DType::f32, 4);
  const Tensor w = random_weights(40, 512, GetParam(), 5);
  const Tensor expected = linear(x, w, {});
  if (!can_interleave(w)) {  // stays in the file's order
    interleave_when_used(w);
    EXPECT_EQ(interleaved(w, 100), nullptr);
    expect_same_bits(linear(x, w, {}), expected, "file's order");
    return;
  }
  EXPECT_EQ(interleaved(w, 100), nullptr);
  interleave_when_used(w);
  EXPECT_EQ(interleaved(w, 3), nullptr);  // a first, short prompt
  expect_same_bits(linear(x, w, {}), expected, "second product");
  EXPECT_NE(interleaved(w, 3), nullptr);
  const Tensor many = random_weights(40, 512, GetParam(), 6);
  interleave_when_used(many);
  EXPECT_NE(interleaved(many, 100), nullptr);
  LinearOptions transposed;
  transposed.layout = WeightLayout::in_out;
  expect_same_bits(linear(x, transpose(w), {}, transposed), expected, "transposed view");
  EXPECT_EQ(interleaved(slice(w, 0, 16, 32), 3), nullptr);
  expect_same_bits(linear(x, slice(w, 0, 16, 32), {}), slice(expected, 1, 16, 32).contiguous(),
                   "part of a weight");
}

TEST_P(QuantizedGemm, ActivationsThatAreNotFiniteSpoilTheirRowOnly) {
  const int64_t k = 3 * block_of(GetParam());
  const Tensor clean = random_normal({5, k}, DType::f32, 4);
  const Tensor w = random_weights(40, k, GetParam(), 5);
  Tensor x = clean.clone();
  x.data<float>()[k + 40] = std::numeric_limits<float>::quiet_NaN();
  x.data<float>()[2 * k] = std::numeric_limits<float>::infinity();
  x.data<float>()[4 * k - 1] = -std::numeric_limits<float>::infinity();
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
  const int64_t k = block_of(GetParam());
  const Tensor w = random_weights(9, k, GetParam(), 5);
  for (const float value : {0.0f, -0.0f, 1e-45f, 1e-38f}) {
    const Tensor x = Tensor::full({1, k}, value);
    for_each_kernel([&] {
      const Tensor y = product(x, w);
      for (int64_t c = 0; c < 9; ++c) {
        EXPECT_NEAR(y.data<float>()[c], 0.0f, 1e-31f);
      }
    });
  }
}

std::vector<DType> block_types() {
  std::vector<DType> types;
  for (int i = static_cast<int>(DType::q8_0); i <= static_cast<int>(DType::tq2_0); ++i) {
    types.push_back(static_cast<DType>(i));
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedGemm, testing::ValuesIn(block_types()),
                         [](const auto& each) { return std::string(name_of(each.param)); });
INSTANTIATE_TEST_SUITE_P(Types, PlainGemm, testing::Values(DType::q8_0, DType::q4_0),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace heed::test
