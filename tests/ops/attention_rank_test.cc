#include <gtest/gtest.h>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"

namespace heed::test {
namespace {

Tensor four(const Tensor& x) {
  return x.rank() == 2 ? reshape(x, {1, 1, x.size(0), x.size(1)})
                       : reshape(x, {x.size(0), 1, x.size(1), x.size(2)});
}

TEST(AttentionRank, TwoAndThreeAxesGiveTheBitsOfFour) {
  for (const Shape& lead : {Shape{}, Shape{3}}) {
    Shape queries = lead;
    queries.push_back(5);
    queries.push_back(8);
    Shape keys = lead;
    keys.push_back(7);
    keys.push_back(8);
    const Tensor q = random_normal(queries, DType::f32, 1);
    const Tensor k = random_normal(keys, DType::f32, 2);
    const Tensor v = random_normal(keys, DType::f32, 3);
    AttentionOptions options;
    options.position = Causal{2};
    for (const auto kernel :
         {AttentionKernel::automatic, AttentionKernel::reference, AttentionKernel::chunked}) {
      options.kernel = kernel;
      const Tensor y = attention(q, k, v, options);
      ASSERT_EQ(y.shape(), q.shape());
      expect_same_bits(reshape(y, four(y).shape()), attention(four(q), four(k), four(v), options));
    }
    const AttentionSteps steps = attention_steps(q, k, v, options);
    EXPECT_EQ(steps.weights.rank(), q.rank());
    EXPECT_EQ(steps.lse.rank(), q.rank() - 1);
    EXPECT_EQ(steps.weights.size(-1), 7);
  }
}

TEST(AttentionRank, MasksFollow) {
  const Tensor q = random_normal({2, 4, 3}, DType::f32, 1);
  Tensor mask = Tensor::full({2, 4, 4}, 1.0, DType::u8);
  mask[1].fill(0);
  AttentionOptions options;
  options.mask = mask;
  const Tensor y = attention(q, q, q, options);
  EXPECT_EQ(count_nonzero(y[1]), 0);
  expect_same_bits(y[0], attention(q[0], q[0], q[0]));

  AttentionOptions padded;
  padded.key_padding = Tensor::from<uint8_t>({1, 1, 0, 0}, {4});
  expect_same_bits(attention(q[0], q[0], q[0], padded),
                   attention(q[0], q[0].slice(0, 0, 2), q[0].slice(0, 0, 2)));
}

TEST(AttentionRank, HasGradients) {
  check_gradient([](const auto& x) { return attention(x[0], x[1], x[2]); },
                 {random_normal({3, 4}, DType::f64, 1), random_normal({5, 4}, DType::f64, 2),
                  random_normal({5, 2}, DType::f64, 3)});
}

TEST(AttentionRank, MixedRanksAreAnErrorThatNamesTheShapes) {
  try {
    attention(Tensor::zeros({2, 3}), Tensor::zeros({1, 2, 3}), Tensor::zeros({2, 3}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("q [2, 3], k [1, 2, 3]"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("[length, depth]"), std::string::npos);
  }
}

}  // namespace
}  // namespace heed::test
