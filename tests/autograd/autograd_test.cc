#include <gtest/gtest.h>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

Tensor leaf(std::initializer_list<float> values) {
  Tensor x = Tensor::from<float>(values, {static_cast<int64_t>(values.size())});
  x.set_requires_grad(true);
  return x;
}

TEST(Backward, AddsUpOverUsesAndCalls) {
  Tensor x = leaf({1, 2, 3});
  backward(sum(mul(x, x) + x));
  expect_close(x.grad(), std::vector<double>{3, 5, 7}, {0, 0});
  backward(sum(x));
  expect_close(x.grad(), std::vector<double>{4, 6, 8}, {0, 0});
}

TEST(Backward, DoesNotWriteIntoSharedGradients) {
  Tensor x = leaf({1, 2});
  Tensor y = leaf({3, 4});
  const Tensor z = x + y;  // both inputs get the same dy
  backward(sum(mul(z, z) + x));
  expect_close(x.grad(), std::vector<double>{9, 13}, {0, 0});
  expect_close(y.grad(), std::vector<double>{8, 12}, {0, 0});
}

TEST(Backward, SecondCallThroughFreedHistoryIsAnError) {
  Tensor x = leaf({1, 2});
  const Tensor loss = sum(mul(x, x));
  backward(loss);
  try {
    backward(loss);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("was freed"), std::string::npos) << error.what();
  }
}

TEST(Backward, KeepHistoryAllowsASecondCall) {
  Tensor x = leaf({1, 2});
  const Tensor loss = sum(mul(x, x));
  backward(loss, true);
  backward(loss);
  expect_close(x.grad(), std::vector<double>{4, 8}, {0, 0});
}

TEST(Backward, InPlaceChangeOfASavedValueIsAnError) {
  Tensor x = leaf({1, 2});
  Tensor y = mul(x, 2.0);
  const Tensor loss = sum(mul(y, y));
  y.fill(7.0);
  try {
    backward(loss);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("changed in place"), std::string::npos);
  }
}

TEST(Backward, NeedsAGradientAndAScalar) {
  const Tensor plain = Tensor::zeros({});
  EXPECT_ERROR(backward(plain),
               "backward: the result does not depend on any tensor that requires a gradient");
  Tensor x = leaf({1, 2});
  EXPECT_ERROR(backward(mul(x, x)),
               "backward: a result of shape [2] needs its gradient given: backward(y, dy)");
  EXPECT_ERROR(backward(mul(x, x), Tensor::zeros({3})),
               "backward: gradient [3] for a result of shape [2]");
}

TEST(Backward, NoGradRecordsNothing) {
  Tensor x = leaf({1, 2});
  const NoGrad no_grad;
  EXPECT_FALSE(mul(x, x).requires_grad());
}

TEST(Backward, HooksRunOnceAfterTheLastContribution) {
  Tensor x = leaf({1, 2});
  std::vector<double> seen;
  on_grad_ready(x, [&](const Tensor& t) { seen = t.grad().to_doubles(); });
  backward(sum(mul(x, x) + x + x));
  EXPECT_EQ(seen, (std::vector<double>{4, 6}));
}

TEST(Backward, AVeryLongHistoryNeedsNoStack) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) {
    y = add(y, 0.0);
  }
  backward(sum(y));
  EXPECT_EQ(x.grad().item(), 1.0);
  Tensor z = x;
  for (int i = 0; i < 200000; ++i) {
    z = add(z, 0.0);
  }
}

TEST(Checkpoint, GradientsAreIdenticalWithDropout) {
  const Tensor weight = random_normal({8, 8});
  auto run = [&](bool recompute) {
    manual_seed(5);
    Tensor x = random_normal({4, 8}, DType::f32, 3).set_requires_grad(true);
    Tensor w = weight.clone().set_requires_grad(true);
    auto block = [w](const std::vector<Tensor>& in) {
      return dropout(tanh(matmul(in[0], w)), 0.5, true);
    };
    Tensor y = recompute ? checkpoint(block, {x}) : block({x});
    y = recompute ? checkpoint(block, {y}) : block({y});
    y = dropout(y, 0.3, true);
    backward(sum(mul(y, y)));
    return std::vector<Tensor>{y.detach(), x.grad(), w.grad()};
  };
  const auto plain = run(false);
  const auto again = run(true);
  for (size_t i = 0; i < plain.size(); ++i) {
    expect_same_bits(again[i], plain[i], "checkpoint");
  }
}

}  // namespace
}  // namespace heed::test
