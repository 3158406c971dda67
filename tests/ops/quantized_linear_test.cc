#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/ops.h"
#include "support/check.h"

namespace heed::test {
namespace {

class QuantizedLinear : public testing::TestWithParam<DType> {};

/// A quantised weight gives the bits that its dequantised values give, few rows and many, in both
/// layouts.
TEST_P(QuantizedLinear, GivesWhatTheDequantisedWeightGives) {
  for (const int64_t rows : {1, 5, 33, 150}) {
    for (const auto& [in, out] : {std::pair{32, 1}, std::pair{64, 37}, std::pair{800, 70}}) {
      const Tensor x = random_normal({rows, in}, DType::f32, 1);
      const Tensor bias = random_normal({out}, DType::f32, 2);
      const Tensor weight = quantize(random_normal({out, in}, DType::f32, 3), GetParam());
      const Tensor plain = dequantize(weight);
      const std::string what =
          std::to_string(rows) + " rows, " + std::to_string(in) + " to " + std::to_string(out);
      expect_same_bits(linear(x, weight, bias), linear(x, plain, bias), what);
      const LinearOptions turned{.layout = WeightLayout::in_out, .activation = Activation::gelu};
      expect_same_bits(linear(x, transpose(weight), bias, turned),
                       linear(x, transpose(plain), bias, turned), what + ", transposed");
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
  EXPECT_THROW(linear(x, transpose(weight), {}), Error);
  EXPECT_THROW(linear(x, weight, {}, {.layout = WeightLayout::in_out}), Error);
}

TEST_P(QuantizedLinear, EmbeddingGivesRowsInF32) {
  const Tensor table = quantize(random_normal({11, 64}), GetParam());
  const Tensor ids = Tensor::from({int64_t{3}, int64_t{0}, int64_t{10}, int64_t{3}}, {2, 2});
  expect_same_bits(embedding(table, ids), embedding(dequantize(table), ids), "rows");
  EXPECT_THROW(embedding(table, Tensor::from({int64_t{11}}, {1})), Error);
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedLinear, testing::Values(DType::q8_0, DType::q4_0),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace heed::test
