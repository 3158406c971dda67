#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

Tensor targets_of(std::initializer_list<int64_t> values) {
  return Tensor::from<int64_t>(values, {static_cast<int64_t>(values.size())});
}

/// The same from log_softmax, element by element.
double expected_loss(const Tensor& logits, const Tensor& targets, CrossEntropyOptions options) {
  const Tensor logs = log_softmax(logits.to(DType::f64));
  const int64_t classes = logits.size(-1);
  const std::vector<double> p = logs.to_doubles();
  const std::vector<double> ids = targets.to_doubles();
  double sum = 0.0;
  double counted = 0.0;
  for (size_t row = 0; row < ids.size(); ++row) {
    if (static_cast<int64_t>(ids[row]) == options.ignore_index) {
      continue;
    }
    counted += 1.0;
    for (int64_t k = 0; k < classes; ++k) {
      const double share = options.label_smoothing / static_cast<double>(classes) +
                           (k == static_cast<int64_t>(ids[row]) ? 1 - options.label_smoothing : 0);
      sum -= share * p[row * static_cast<size_t>(classes) + static_cast<size_t>(k)];
    }
  }
  return sum / counted;
}

TEST(CrossEntropy, MatchesLogSoftmax) {
  const Tensor targets = targets_of({3, 0, -100, 130});
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Tensor logits = random_normal({4, 131}, type);
    for (const double smoothing : {0.0, 0.1}) {
      const CrossEntropyOptions options{-100, smoothing};
      expect_close(cross_entropy(logits, targets, options),
                   {expected_loss(logits, targets, options)}, elementwise(type));
    }
  }
  const CrossEntropyOptions zero_ignored{0, 0.0};
  const Tensor logits = random_normal({4, 131});
  const Tensor plain = targets_of({3, 0, 5, 130});
  expect_close(cross_entropy(logits, plain, zero_ignored),
               {expected_loss(logits, plain, zero_ignored)}, elementwise(DType::f32));
}

TEST(CrossEntropy, Gradient) {
  const std::vector<Tensor> logits{random_normal({2, 2, 9}, DType::f64)};
  const Tensor targets = Tensor::from<int64_t>({1, 8, -100, 0}, {2, 2});
  for (const double smoothing : {0.0, 0.2}) {
    check_gradient(
        [&](const auto& in) {
          return cross_entropy(in[0], targets, {-100, smoothing});
        },
        logits);
  }
}

TEST(CrossEntropy, StaysFiniteForLargeLogits) {
  const Tensor logits = Tensor::from({1e4f, -1e4f, 0.0f, 3e38f, -3e38f, 0.0f}, {2, 3});
  Tensor leaf = logits.clone().set_requires_grad(true);
  const Tensor loss = cross_entropy(leaf, targets_of({0, 0}));
  EXPECT_EQ(loss.item(), 0.0);
  backward(loss);
  expect_close(leaf.grad(), std::vector<double>(6, 0.0), elementwise(DType::f32));
}

TEST(CrossEntropy, BadInput) {
  const Tensor logits = Tensor::zeros({2, 3});
  EXPECT_ERROR(cross_entropy(logits, targets_of({0})),
               "cross_entropy: targets [1] where [2] is wanted");
  EXPECT_ERROR(cross_entropy(logits, targets_of({0, 3})),
               "cross_entropy: target 3 out of range for 3 classes");
  EXPECT_ERROR(cross_entropy(logits, targets_of({0, -1})),
               "cross_entropy: target -1 out of range for 3 classes");
  EXPECT_ERROR(cross_entropy(logits, targets_of({-100, -100})),
               "cross_entropy: none of the 2 targets counts: all are the ignore index -100");
  EXPECT_ERROR(cross_entropy(logits, Tensor::zeros({2})),
               "cross_entropy: targets of f32; i64 or i32 is wanted");
  EXPECT_ERROR(cross_entropy(logits, targets_of({0, 1}), {-100, 1.5}),
               "cross_entropy: label smoothing 1.5 is not in [0, 1]");
  EXPECT_ERROR(cross_entropy(Tensor::zeros({0, 3}), Tensor::zeros({0}, DType::i64)),
               "cross_entropy: none of the 0 targets counts: all are the ignore index -100");
  EXPECT_ERROR(cross_entropy(Tensor::zeros({2, 0}), targets_of({0, 0})),
               "cross_entropy: logits [2, 0] have no classes");
  EXPECT_ERROR(cross_entropy(Tensor::zeros({2, 3}, DType::i64), targets_of({0, 0})),
               "cross_entropy: logits [2, 3] of i64: a floating type is wanted");
}

TEST(Mse, ValueAndGradient) {
  const Tensor p = Tensor::from({1.0, 2.0, 3.0, 5.0}, {2, 2});
  const Tensor t = Tensor::from({1.0, 0.0, 4.0, 2.0}, {2, 2});
  EXPECT_DOUBLE_EQ(mse(p, t).item(), (0.0 + 4.0 + 1.0 + 9.0) / 4);
  check_gradient([](const auto& in) { return mse(in[0], in[1]); }, {p, t});
  EXPECT_ERROR(mse(p, Tensor::zeros({4}, DType::f64)),
               "mse: prediction [2, 2] and target [4] differ");
  EXPECT_ERROR(mse(p, Tensor::zeros({2, 2})),
               "mse: [2, 2] of f64 meets [2, 2] of f32; cast() one of them");
  EXPECT_ERROR(mse(Tensor::zeros({0}), Tensor::zeros({0})), "mse: shape [0] has no elements");
}

}  // namespace
}  // namespace heed::test
