#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Softmax, RowsOfMinusInfinityGiveZerosAndNaNStays) {
  const Tensor x = Tensor::from(
      {1.0, 2.0, -kInfinity, -kInfinity, -kInfinity, -kInfinity, kNaN, 1.0, -kInfinity}, {3, 3});
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    const std::vector<double> y = softmax(x.to(type)).to_doubles();
    EXPECT_NEAR(y[0], 1 / (1 + std::exp(1.0)), 2e-3);
    EXPECT_EQ(y[2], 0.0);
    EXPECT_EQ(y[3] + y[4] + y[5], 0.0);
    EXPECT_TRUE(std::isnan(y[6]) && std::isnan(y[7]));
  }
  const std::vector<double> hidden = softmax(Tensor::from({kNaN, -kInfinity}, {1, 2})).to_doubles();
  EXPECT_TRUE(std::isnan(hidden[0]));
  const std::vector<double> huge = softmax(Tensor::from({1e30, 0.0, -1e30}, {3})).to_doubles();
  EXPECT_EQ(huge, (std::vector<double>{1, 0, 0}));
}

/// A sequence has the same bits however much padding its batch puts behind it.
TEST(Softmax, PaddingBehindARowChangesNoBit) {
  constexpr int64_t kMost = 150;  // more than two rounds of four AVX-512 vectors
  const Tensor scores = random_normal({1, kMost});
  for_each_target([&](const char* target) {
    for (int64_t length = 1; length < kMost; ++length) {
      const Tensor alone = slice(scores, 1, 0, length).contiguous();
      const Tensor padding = Tensor::full({1, kMost - length}, 1.0);
      const Tensor padded = softmax(concat({alone, padding * -1e30}, 1));
      const std::string what = std::string(target) + ", " + std::to_string(length);
      expect_same_bits(slice(padded, 1, 0, length).contiguous(), softmax(alone), what);
      expect_same_bits(sum(concat({alone, padding * 0.0}, 1), -1), sum(alone, -1), what);
    }
  });
}

TEST(Softmax, GradientsOverAnyAxis) {
  const std::vector<Tensor> x{random_normal({2, 5, 3}, DType::f64)};
  for (const int axis : {0, 1, -1}) {
    check_gradient([=](const auto& in) { return softmax(in[0], axis); }, x);
    check_gradient([=](const auto& in) { return log_softmax(in[0], axis); }, x);
  }
}

TEST(Softmax, LogSoftmaxIsTheLogOfSoftmax) {
  const Tensor x = random_normal({4, 37}, DType::f64);
  expect_close(log_softmax(x), log(softmax(x)), elementwise(DType::f64));
  const Tensor masked = Tensor::from({0.0, -kInfinity}, {1, 2});
  EXPECT_EQ(log_softmax(masked).to_doubles(), (std::vector<double>{0.0, -kInfinity}));
}

TEST(Norm, Gradients) {
  const std::vector<Tensor> in{random_normal({2, 3, 7}, DType::f64, 1),
                               random_normal({7}, DType::f64, 2),
                               random_normal({7}, DType::f64, 3)};
  check_gradient([](const auto& v) { return layer_norm(v[0], v[1], v[2], 1e-5); }, in);
  check_gradient([](const auto& v) { return layer_norm(v[0], v[1], Tensor(), 1e-5); }, in);
  check_gradient([](const auto& v) { return rms_norm(v[0], v[1], 1e-6); }, in);
}

TEST(Norm, MatchesTheFormulaForWideAndShiftedRows) {
  for (const int64_t n : {1, 5, 64, 771}) {
    // A mean of 1,000 with a stddev of 1: the variance must not come from E[x²] - E[x]².
    const Tensor x = add(random_normal({6, n}, DType::f64), 1000.0).to(DType::f32);
    const Tensor w = random_normal({n}, DType::f32, 2);
    const Tensor b = random_normal({n}, DType::f32, 3);
    const Tensor wide = x.to(DType::f64);
    const Tensor centred = sub(wide, mean(wide, -1, true));
    const Tensor variance = mean(mul(centred, centred), -1, true);
    const Tensor z = div(centred, sqrt(add(variance, 1e-5)));
    const Tensor expected = add(mul(z, w.to(DType::f64)), b.to(DType::f64));
    // The mean of n numbers of about 1,000, seen in units of the stddev.
    const Tolerance of_mean{0.0, reduction(1000.0, static_cast<double>(n), DType::f32)};
    expect_close(layer_norm(x, w, b, 1e-5), expected, of_mean, "layer_norm");
    const Tensor squares = mean(mul(wide, wide), -1, true);
    expect_close(rms_norm(x, w, 1e-6), mul(div(wide, sqrt(add(squares, 1e-6))), w.to(DType::f64)),
                 elementwise(DType::f32), "rms_norm");
  }
}

TEST(Norm, BadInput) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_ERROR(layer_norm(x, Tensor::zeros({2}), Tensor(), 1e-5),
               "layer_norm: weight [2] for input [2, 3]");
  EXPECT_ERROR(layer_norm(x, Tensor(), Tensor(), 1e-5), "layer_norm: weight is undefined");
  EXPECT_ERROR(layer_norm(x, Tensor::zeros({3}), Tensor::zeros({3}, DType::f64), 1e-5),
               "layer_norm: [2, 3] of f32 meets [3] of f64; cast() one of them");
  EXPECT_ERROR(rms_norm(x, Tensor::zeros({1, 3}), 1e-5),
               "rms_norm: weight [1, 3] for input [2, 3]");
  EXPECT_ERROR(rms_norm(Tensor::scalar(1.0), Tensor::zeros({1}), 1e-5),
               "rms_norm: shape [] has no last axis to normalise");
  EXPECT_ERROR(softmax(x, 2), "softmax: axis 2 out of range for shape [2, 3]");
  EXPECT_ERROR(softmax(Tensor::zeros({2}, DType::i64)),
               "softmax: input [2] of i64: a floating type is wanted");
  EXPECT_EQ(layer_norm(Tensor::zeros({0, 3}), Tensor::zeros({3}), Tensor(), 1e-5).numel(), 0);
  EXPECT_EQ(softmax(Tensor::zeros({3, 0})).numel(), 0);
}

TEST(Rows, ResultsDoNotDependOnTheThreadCountNorOnOtherRows) {
  const Tensor x = random_normal({301, 259});
  const Tensor w = random_normal({259}, DType::f32, 2);
  const Tensor b = random_normal({259}, DType::f32, 3);
  const Tensor targets = random_indices({301}, 259);
  expect_same_for_any_thread_count([&] {
    std::vector<Tensor> results;
    const auto run = [&](const auto& fn) {
      Tensor leaf = x.clone().set_requires_grad(true);
      Tensor weight = w.clone().set_requires_grad(true);
      Tensor bias = b.clone().set_requires_grad(true);
      const Tensor y = fn(leaf, weight, bias);
      backward(y, random_normal(y.shape(), y.dtype(), 9));
      results.insert(results.end(), {y.detach(), leaf.grad()});
      for (const Tensor& parameter : {weight, bias}) {
        if (parameter.grad().defined()) {
          results.push_back(parameter.grad());
        }
      }
    };
    run([](auto& v, auto&, auto&) { return softmax(v); });
    run([](auto& v, auto&, auto&) { return log_softmax(v); });
    run([](auto& v, auto& g, auto& o) { return layer_norm(v, g, o, 1e-5); });
    run([](auto& v, auto& g, auto&) { return rms_norm(v, g, 1e-5); });
    run([](auto& v, auto& g, auto& o) { return add(mul(v, g), o); });
    run([&](auto& v, auto&, auto&) { return cross_entropy(v, targets); });
    run([](auto& v, auto&, auto&) { return sum(v, 0); });
    run([](auto& v, auto&, auto&) { return sum(gelu(v)); });
    run([](auto& v, auto&, auto&) {
      manual_seed(5);
      return dropout(v, 0.3, true);
    });
    return results;
  });
  const Tensor one = slice(x, 0, 17, 18);
  expect_same_bits(slice(softmax(x), 0, 17, 18), softmax(one));
  expect_same_bits(slice(layer_norm(x, w, b, 1e-5), 0, 17, 18), layer_norm(one, w, b, 1e-5));
  expect_same_bits(slice(rms_norm(x, w, 1e-5), 0, 17, 18), rms_norm(one, w, 1e-5));
}

}  // namespace
}  // namespace heed::test
