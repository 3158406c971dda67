#include <gtest/gtest.h>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

Tensor targets_with_holes(int64_t rows, int64_t classes) {
  Tensor targets = random_indices({rows}, classes, 7);
  for (int64_t i = 0; i < rows; i += 3) {
    targets.data<int64_t>()[i] = -100;
  }
  return targets;
}

TEST(LinearCrossEntropy, EqualsItsTwoParts) {
  const Tensor x = random_normal({300, 16}, DType::f64, 1);
  const Tensor w = random_normal({70, 16}, DType::f64, 2);
  const Tensor b = random_normal({70}, DType::f64, 3);
  for (const Tensor& targets : {random_indices({300}, 70, 4), targets_with_holes(300, 70)}) {
    for (const double smoothing : {0.0, 0.1}) {
      const CrossEntropyOptions options{-100, smoothing};
      auto run = [&](bool fused) {
        Tensor xs = x.clone().set_requires_grad(true);
        Tensor ws = w.clone().set_requires_grad(true);
        Tensor bs = b.clone().set_requires_grad(true);
        const Tensor loss = fused ? linear_cross_entropy(xs, ws, bs, targets, options)
                                  : cross_entropy(linear(xs, ws, bs), targets, options);
        backward(mul(loss, 3.0));
        return std::vector<Tensor>{loss.detach(), xs.grad(), ws.grad(), bs.grad()};
      };
      const auto fused = run(true);
      const auto composed = run(false);
      for (size_t i = 0; i < fused.size(); ++i) {
        expect_close(fused[i], composed[i], {1e-12, 1e-12});
      }
    }
  }
}

TEST(LinearCrossEntropy, ManyChunksGiveTheBitsOfOne) {
  // 60,000 classes force chunks of 256 rows.
  const Tensor x = random_normal({300, 4}, DType::f32, 1);
  const Tensor w = random_normal({60000, 4}, DType::f32, 2);
  const Tensor targets = random_indices({300}, 60000, 4);
  Tensor xs = x.clone().set_requires_grad(true);
  Tensor ws = w.clone().set_requires_grad(true);
  backward(linear_cross_entropy(xs, ws, {}, targets));
  Tensor xs2 = x.clone().set_requires_grad(true);
  Tensor ws2 = w.clone().set_requires_grad(true);
  backward(cross_entropy(linear(xs2, ws2, {}), targets));
  expect_close(xs.grad(), xs2.grad(), {1e-5, 1e-9});
  expect_close(ws.grad(), ws2.grad(), {1e-5, 1e-9});
}

/// Rows in bf16: products in bf16, the loss and the gradients of weight and bias in f32.
TEST(LinearCrossEntropy, Bf16RowsFollowF32) {
  const Tensor x = random_normal({70, 48}, DType::bf16, 1);
  const Tensor w = random_normal({101, 48}, DType::f32, 2).to(DType::bf16).to(DType::f32);
  const Tensor b = random_normal({101}, DType::f32, 3);
  const Tensor targets = random_indices({70}, 101, 4);
  const auto run = [&](DType type) {
    const Tensor xs = x.to(type).set_requires_grad(true);
    const Tensor ws = w.clone().set_requires_grad(true);
    const Tensor bs = b.clone().set_requires_grad(true);
    const Tensor loss = linear_cross_entropy(xs, ws, bs, targets, {-100, 0.1});
    backward(loss);
    return std::vector<Tensor>{loss, xs.grad(), ws.grad(), bs.grad()};
  };
  const std::vector<Tensor> narrow = run(DType::bf16);
  const std::vector<Tensor> wide = run(DType::f32);
  EXPECT_EQ(narrow[1].dtype(), DType::bf16);
  for (const size_t i : {size_t{0}, size_t{2}, size_t{3}}) {
    EXPECT_EQ(narrow[i].dtype(), DType::f32);
  }
  expect_norm_close(narrow[0], wide[0], 1e-6);  // the logits are those of the same numbers
  for (size_t i = 1; i < wide.size(); ++i) {
    expect_norm_close(narrow[i].to(DType::f32), wide[i], 0x1p-8, "gradient " + std::to_string(i));
  }
}

TEST(LinearCrossEntropy, Gradients) {
  const Tensor targets = Tensor::from<int64_t>({1, -100, 0, 2}, {2, 2});
  check_gradient(
      [&](const std::vector<Tensor>& in) {
        return linear_cross_entropy(in[0], in[1], in[2], targets, {-100, 0.2});
      },
      {random_normal({2, 2, 5}, DType::f64, 1), random_normal({3, 5}, DType::f64, 2),
       random_normal({3}, DType::f64, 3)});
}

TEST(LinearCrossEntropy, BadArgumentsAreNamed) {
  const Tensor x = random_normal({2, 5});
  const Tensor w = random_normal({3, 5});
  EXPECT_ERROR(linear_cross_entropy(x, w, {}, Tensor::from<int64_t>({0, 3}, {2})),
               "linear_cross_entropy: target 3 out of range for 3 classes");
  EXPECT_ERROR(linear_cross_entropy(x, w, {}, Tensor::from<int64_t>({0}, {1})),
               "linear_cross_entropy: targets [1] where [2] is wanted");
  EXPECT_ERROR(linear_cross_entropy(x, w, {}, Tensor::from<int64_t>({-100, -100}, {2})),
               "linear_cross_entropy: none of the 2 targets counts: all are the ignore index -100");
  EXPECT_ERROR(
      linear_cross_entropy(x, random_normal({3, 4}), {}, Tensor::from<int64_t>({0, 1}, {2})),
      "linear_cross_entropy: x [2, 5] does not fit weight [3, 4] ([classes, in])");
}

}  // namespace
}  // namespace heed::test
