#include "kernels/quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "heed/io.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "kernels/quantize.h"
#include "support/data.h"
#include "support/error.h"
#include "support/op_case.h"

namespace heed {
namespace {

std::vector<float> ramp(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(std::sin(static_cast<float>(i) * 0.37f) * (1.0f + static_cast<float>(i % 5)));
  }
  return values;
}

TEST(Quantize, Q8KeepsScaleAndRoundsHalvesAwayFromZero) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;  // scale 1
  x[1] = 2.5f;
  x[2] = -2.5f;
  x[3] = -127.0f;
  const Tensor q = quantize(Tensor::from(x, {32}), DType::q8_0);
  const auto* block = static_cast<const kernels::BlockQ8*>(q.raw());
  EXPECT_EQ(to_float(block->scale), 1.0f);
  EXPECT_EQ(block->values[0], 127);
  EXPECT_EQ(block->values[1], 3);
  EXPECT_EQ(block->values[2], -3);
  EXPECT_EQ(block->values[3], -127);
  EXPECT_EQ(block->values[4], 0);
}

TEST(Quantize, Q4MapsTheLargestToMinusEight) {
  std::vector<float> x(32, 0.0f);
  x[5] = -8.0f;  // scale 1
  x[6] = 7.0f;
  x[7] = 8.0f;  // as large as the first, which comes first: clipped to 7
  x[20] = -0.5f;
  const Tensor q = quantize(Tensor::from(x, {32}), DType::q4_0);
  const auto* block = static_cast<const kernels::BlockQ4*>(q.raw());
  EXPECT_EQ(to_float(block->scale), 1.0f);
  EXPECT_EQ(block->pairs[5] & 15, 0);
  EXPECT_EQ(block->pairs[6] & 15, 15);
  EXPECT_EQ(block->pairs[7] & 15, 15);
  EXPECT_EQ(block->pairs[4] >> 4, 8);  // weight 20: -0.5 + 8.5 = 8
  EXPECT_EQ(block->pairs[0], 0x88);
}

TEST(Quantize, BlocksAreGgmlsToTheBit) {
  const TensorMap golden = load_safetensors(test::golden("io/quantized.safetensors"));
  for (const DType type : {DType::q8_0, DType::q4_0}) {
    const Tensor blocks = quantize(golden.at("x"), type);
    const Tensor& wanted = golden.at(std::string(name_of(type)));
    ASSERT_EQ(blocks.bytes(), wanted.bytes());
    EXPECT_EQ(std::memcmp(blocks.raw(), wanted.raw(), static_cast<size_t>(wanted.bytes())), 0)
        << name_of(type);
  }
}

/// Every block type that GGUF has weights in, against the gguf package's own reading.
TEST(Quantize, WeightsOfEveryBlockTypeAreTheReferencesToTheBit) {
  const TensorMap golden = load_safetensors(test::golden("io/blocks.safetensors"));
  int kinds = 0;
  for (int i = static_cast<int>(DType::q8_0); i <= static_cast<int>(DType::tq2_0); ++i, ++kinds) {
    const auto type = static_cast<DType>(i);
    const std::string name(name_of(type));
    const Tensor& blocks = golden.at(name + ".blocks");
    const Tensor& wanted = golden.at(name + ".weights");
    const Shape shape{blocks.size(0), block_of(type)};
    ASSERT_EQ(blocks.bytes(), bytes_of(type, shape.numel())) << name;
    const Tensor quantized = Tensor::empty(shape, type);
    std::memcpy(quantized.raw(), blocks.raw(), static_cast<size_t>(blocks.bytes()));
    const Tensor weights = dequantize(quantized);
    ASSERT_EQ(weights.shape(), wanted.shape()) << name;
    for (int64_t k = 0; k < weights.numel(); ++k) {
      ASSERT_EQ(std::bit_cast<uint32_t>(weights.data<float>()[k]),
                std::bit_cast<uint32_t>(wanted.data<float>()[k]))
          << name << " weight " << k << ": " << weights.data<float>()[k] << " instead of "
          << wanted.data<float>()[k];
    }
  }
  EXPECT_EQ(kinds, 22);
}

TEST(Quantize, ErrorIsAtMostHalfAStep) {
  const Tensor x = Tensor::from(ramp(64 * 96), {64, 96});
  const auto original = x.to_vector<float>();
  for (const auto& [type, steps] : {std::pair{DType::q8_0, 127.0f}, std::pair{DType::q4_0, 8.0f}}) {
    const auto back = dequantize(quantize(x, type)).to_vector<float>();
    for (size_t b = 0; b < original.size(); b += 32) {
      float largest = 0;
      for (size_t i = b; i < b + 32; ++i) {
        largest = std::max(largest, std::abs(original[i]));
      }
      // Half a step, a whole one at q4_0's clipped end, and the scale's own rounding to f16.
      const float share = type == DType::q8_0 ? 0.5f : 1.0f;
      const float allowed = largest / steps * share + largest * 0x1p-11f * 1.01f;
      for (size_t i = b; i < b + 32; ++i) {
        EXPECT_LE(std::abs(back[i] - original[i]), allowed) << name_of(type) << " " << i;
      }
    }
  }
}

constexpr DType kWritten[] = {DType::q8_0, DType::q4_0, DType::q4_1,   DType::q5_0,
                              DType::q5_1, DType::q2_k, DType::q3_k,   DType::q4_k,
                              DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};

double rms_error(const Tensor& x, const Tensor& quantized, int64_t step = 1) {
  const auto wanted = x.to_vector<float>();
  const auto actual = dequantize(quantized).to_vector<float>();
  double error = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < wanted.size(); i += static_cast<size_t>(step)) {
    const double difference = static_cast<double>(actual[i]) - static_cast<double>(wanted[i]);
    error += difference * difference;
    size += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return std::sqrt(error / size);
}

/// The error on normal weights, as a fraction of their norm: the bounds are 4 % above what the
/// search gives, so that a search that stops working is noticed.
TEST(Quantize, ErrorOfEveryWrittenTypeIsWhatItsBitsAllow) {
  const Tensor x = test::random_normal({64, 1024}, DType::f32, 7);
  const std::pair<DType, double> allowed[] = {
      {DType::q8_0, 0.0056}, {DType::q4_0, 0.089},  {DType::q4_1, 0.073},   {DType::q5_0, 0.0425},
      {DType::q5_1, 0.0355}, {DType::q2_k, 0.285},  {DType::q3_k, 0.151},   {DType::q4_k, 0.0745},
      {DType::q5_k, 0.0372}, {DType::q6_k, 0.0182}, {DType::iq4_nl, 0.078}, {DType::iq4_xs, 0.079},
  };
  for (const auto& [type, most] : allowed) {
    const double error = rms_error(x, quantize(x, type));
    EXPECT_LT(error, most) << name_of(type);
    EXPECT_GT(error, 0.8 * most) << name_of(type) << ": smaller than its bits allow";
  }
}

/// Columns that count a hundred times more get a smaller error.
TEST(Quantize, ImportanceMovesTheErrorElsewhere) {
  const Tensor x = test::random_normal({32, 512}, DType::f32, 7);
  std::vector<float> weights(512, 1.0f);
  for (size_t i = 0; i < weights.size(); i += 8) {
    weights[i] = 100.0f;
  }
  const Tensor importance = Tensor::from(weights, {512});
  for (const DType type : kWritten) {
    if (type != DType::q8_0) {
      EXPECT_LT(rms_error(x, quantize(x, type, importance), 8),
                0.95 * rms_error(x, quantize(x, type), 8))
          << name_of(type);
    }
  }
  EXPECT_ERROR(quantize(x, DType::q4_k, Tensor::zeros({256})),
               "quantize: importance must be f32 [512]");
}

TEST(Quantize, RowsOfZerosAndSingleWeightsAreKept) {
  std::vector<float> x(512, 0.0f);
  x[256] = -3.0f;
  for (const DType type : kWritten) {
    const auto back = dequantize(quantize(Tensor::from(x, {2, 256}), type)).to_vector<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(back[i], x[i], 0.07f) << name_of(type) << " " << i;
    }
  }
}

TEST(Quantize, TypesThatAreOnlyReadAreRefused) {
  for (const DType type : {DType::mxfp4, DType::iq2_xs, DType::iq3_s, DType::tq1_0}) {
    EXPECT_ERROR(quantize(Tensor::zeros({256}), type), "is only read, not written")
        << name_of(type);
  }
}

TEST(Quantize, ZerosAndTinyWeightsGiveZeros) {
  for (const DType type : {DType::q8_0, DType::q4_0}) {
    for (const float value : {0.0f, 1e-45f, 1e-39f, -1e-40f}) {
      const auto back = dequantize(quantize(Tensor::full({64}, value), type)).to_vector<float>();
      EXPECT_EQ(back, std::vector<float>(64, 0.0f)) << name_of(type) << value;
    }
  }
}

TEST(Quantize, OfHalfTypesAndViewsIsThatOfTheirValues) {
  const Tensor x = Tensor::from(ramp(64 * 32), {64, 32});
  const Tensor view = x.alias({32, 64}, {1, 32}, 0);
  const Tensor a = quantize(view, DType::q4_0);
  const Tensor b = quantize(view.contiguous(), DType::q4_0);
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())), 0);
  const Tensor half = x.to(DType::f16);
  const Tensor c = quantize(half, DType::q8_0);
  const Tensor d = quantize(half.to(DType::f32), DType::q8_0);
  EXPECT_EQ(std::memcmp(c.raw(), d.raw(), static_cast<size_t>(c.bytes())), 0);
}

TEST(Quantize, DequantizeOfFloatingTensorsIsF32) {
  EXPECT_EQ(dequantize(Tensor::full({2}, 1.5, DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ(dequantize(Tensor::full({2}, 1.5, DType::f64)).to_vector<float>(),
            (std::vector<float>{1.5f, 1.5f}));
  EXPECT_EQ(dequantize(Tensor::arange(3)).dtype(), DType::i64);
}

TEST(Quantize, RefusesWhatItCannotHold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType type : kWritten) {
    for (const float bad : {kInfinity, -kInfinity, std::nanf(""), 1e30f}) {
      std::vector<float> x(512, 1.0f);
      x[40] = bad;
      EXPECT_ERROR(quantize(Tensor::from(x, {2, 256}), type),
                   "quantize: a weight of shape [2, 256] is NaN, infinite or beyond what")
          << name_of(type) << bad;
    }
    EXPECT_ERROR(quantize(Tensor::zeros({32, block_of(type) - 1}), type),
                 "quantize: rows of shape [32,");
    EXPECT_ERROR(quantize(Tensor::scalar(1), type),
                 "quantize: rows of shape [] are not a multiple of");
    EXPECT_ERROR(quantize(Tensor::zeros({32}, DType::i32), type),
                 "quantize: takes floating tensors, not i32");
  }
  EXPECT_ERROR(quantize(Tensor::zeros({32}), DType::f16),
               "quantize: f16 is not a quantised type; q8_0, q4_0 and q4_k are");
}

}  // namespace
}  // namespace heed
