#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

class QuantizedLinear : public testing::TestWithParam<DType> {};

/// Near what the dequantised weight gives: an activation is rounded by at most half a step, 1/254
/// of the largest in its block, which no more than the largest in its row bounds here. Both layouts
/// and the epilogue give the same bits.
TEST_P(QuantizedLinear, GivesNearlyWhatTheDequantisedWeightGives) {
  for (const int64_t rows : {1, 5, 33, 150}) {
    for (const auto& [in, out] : {std::pair{32, 1}, std::pair{64, 37}, std::pair{800, 70}}) {
      const Tensor x = random_uniform({rows, in}, -1.0, 1.0, DType::f32, 1);
      const Tensor bias = random_normal({out}, DType::f32, 2);
      const Tensor weight = quantize(random_normal({out, in}, DType::f32, 3), GetParam());
      const Tensor plain = dequantize(weight);
      const std::string what =
          std::to_string(rows) + " rows, " + std::to_string(in) + " to " + std::to_string(out);
      const Tensor y = linear(x, weight, bias);
      const std::vector<double> expected = linear(x, plain, bias).to_doubles();
      const std::vector<double> weights = plain.to_doubles();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t o = 0; o < out; ++o) {
          double size = 0.0;
          for (int64_t i = 0; i < in; ++i) {
            size += std::abs(weights[static_cast<size_t>(o * in + i)]);
          }
          const double allowed =
              size / 254.0 + reduction(size, static_cast<double>(in), DType::f32);
          ASSERT_NEAR(y.data<float>()[r * out + o], expected[static_cast<size_t>(r * out + o)],
                      allowed)
              << what;
        }
      }
      const LinearOptions transposed{.layout = WeightLayout::in_out,
                                     .activation = Activation::gelu};
      expect_same_bits(linear(x, transpose(weight), bias, transposed),
                       activate(y, Activation::gelu), what + ", transposed");
    }
  }
}

/// Activations of short types are what they are in f32; so is the result, rounded once.
TEST_P(QuantizedLinear, ShortActivations) {
  const Tensor weight = quantize(random_normal({40, 96}, DType::f32, 3), GetParam());
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const int64_t rows : {1, 40}) {
      const Tensor x = random_normal({rows, 96}, DType::f32, 1).to(type);
      const Tensor y = linear(x, weight, {});
      EXPECT_EQ(y.dtype(), type);
      expect_same_bits(y, linear(x.to(DType::f32), weight, {}).to(type), name_of(type));
    }
  }
}

TEST_P(QuantizedLinear, HandsTheGradientOnToItsInput) {
  const Tensor weight = quantize(random_normal({5, 64}, DType::f32, 3), GetParam());
  Tensor x = random_normal({3, 64}).set_requires_grad(true);
  Tensor y = random_normal({3, 64}).set_requires_grad(true);
  backward(sum(linear(x, weight, {})));
  backward(sum(linear(y, dequantize(weight), {})));
  expect_same_bits(x.grad(), y.grad(), "gradient of the input");
}

TEST_P(QuantizedLinear, RefusesWhatDoesNotLieInRowsOfBlocks) {
  const Tensor weight = quantize(random_normal({64, 32}), GetParam());
  const Tensor x = random_normal({2, 64});
  EXPECT_ERROR(linear(x, transpose(weight), {}),
               "_0 weight [32, 64] does not lie in rows of whole blocks");
  EXPECT_ERROR(linear(x, weight, {}, {.layout = WeightLayout::in_out}),
               "_0 weight [64, 32] does not lie in rows of whole blocks");
}

TEST_P(QuantizedLinear, EmbeddingGivesRowsInF32) {
  const Tensor table = quantize(random_normal({11, 64}), GetParam());
  const Tensor ids = Tensor::from({int64_t{3}, int64_t{0}, int64_t{10}, int64_t{3}}, {2, 2});
  expect_same_bits(embedding(table, ids), embedding(dequantize(table), ids), "rows");
  EXPECT_ERROR(embedding(table, Tensor::from({int64_t{11}}, {1})),
               "embedding: index 11 out of range for 11 rows");
}

/// The gradient of the input is that of the dequantised weight, tile by tile.
class QuantizedGradient : public testing::TestWithParam<DType> {};

TEST_P(QuantizedGradient, OfTheInputIsTheDequantisedWeights) {
  const int64_t in = 256 * 17;  // tiles of 240 rows: several, the last one shorter
  const int64_t out = 531;
  const Tensor weight = quantize(random_normal({out, in}, DType::f32, 3), GetParam());
  for (const DType type : {DType::f32, DType::bf16}) {
    Tensor x = random_normal({5, in}, DType::f32, 1).to(type);
    x.set_requires_grad(true);
    const Tensor dy = random_normal({5, out}, DType::f32, 2).to(type);
    const Tensor expected = matmul(dy.to(DType::f32), dequantize(weight));
    // Products of bf16 numbers are rounded to bf16 once more: half of 2^-8 on either side.
    const double near = type == DType::f32 ? 1e-6 : 4e-3;
    backward(linear(x, weight, {}), dy);
    expect_norm_close(x.grad(), expected, near, name_of(type));
    x.set_grad({});
    backward(linear(x, transpose(weight), {}, {.layout = WeightLayout::in_out}), dy);
    expect_norm_close(x.grad(), expected, near, "transposed");
  }
}

TEST_P(QuantizedGradient, OfTheLossIsTheDequantisedWeights) {
  const Tensor weight = quantize(random_normal({77, 512}, DType::f32, 3), GetParam());
  const Tensor targets = random_indices({9}, 77);
  Tensor x = random_normal({9, 512}, DType::f32, 1);
  x.set_requires_grad(true);
  backward(linear_cross_entropy(x, weight, {}, targets));
  const Tensor fused = x.grad();
  x.set_grad({});
  backward(cross_entropy(linear(x, weight, {}), targets));
  expect_close(fused, x.grad(), {1e-4, 1e-6});
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedGradient,
                         testing::Values(DType::q8_0, DType::q4_k, DType::q6_k),
                         [](const auto& each) { return std::string(name_of(each.param)); });
INSTANTIATE_TEST_SUITE_P(Types, QuantizedLinear, testing::Values(DType::q8_0, DType::q4_0),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace heed::test
