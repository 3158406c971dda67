#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/version.h"
#include "support/error.h"
#include "support/op_case.h"

// What NumPy users reach for: creation, scalars on both sides, comparisons, order, subscripts.

namespace heed::test {
namespace {

using Values = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Values values_of(const Tensor& x) { return x.to_doubles(); }

TEST(Create, ArangeCountsAsNumPyDoes) {
  EXPECT_EQ(values_of(arange(4)), (Values{0, 1, 2, 3}));
  EXPECT_EQ(values_of(arange(2, 11, 3)), (Values{2, 5, 8}));
  EXPECT_EQ(values_of(arange(3, 0, -1)), (Values{3, 2, 1}));
  EXPECT_EQ(arange(2, 9).dtype(), DType::i64);
  EXPECT_EQ(arange(5, 5).numel(), 0);
  EXPECT_EQ(arange(5, 2).numel(), 0);
  EXPECT_EQ(values_of(arange(0.0, 1.0, 0.25)), (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(0, 1, 0.5).dtype(), DType::f32);
  EXPECT_EQ(arange(INT64_MAX - 1, INT64_MAX).numel(), 1);
  EXPECT_NE(message_of([] { arange(0, 3, 0); }).find("step of 0"), std::string::npos);
  EXPECT_NE(message_of([] { arange(0.0, 3.0, 0.0); }).find("never ends"), std::string::npos);
}

TEST(Create, OnesAndRandomNumbers) {
  EXPECT_EQ(values_of(ones({2}, DType::i32)), (Values{1, 1}));
  EXPECT_EQ(Shape({2, 3}).size(), 2u);
  const Tensor a = rand({1000}, {.seed = 3, .dtype = DType::f64});
  const Tensor b = randn({1000}, {.seed = 3, .dtype = DType::f64});
  Random uniform(3);
  Random normal(3);
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(a[i].item(), uniform.uniform());
    ASSERT_EQ(b[i].item(), normal.normal());
  }
  manual_seed(7);
  const Tensor first = randn({5});
  const Tensor second = randn({5});
  manual_seed(7);
  expect_same_bits(randn({5}), first);
  EXPECT_NE(values_of(first), values_of(second));
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = rand({100000}, {.seed = 1, .dtype = type});
    EXPECT_TRUE(all((x >= 0.0) & (x < 1.0)));
  }
  EXPECT_NE(message_of([] { randn({2}, {.dtype = DType::i64}); }).find("floating"),
            std::string::npos);
  expect_same_for_any_thread_count([] {
    return std::vector{randn({30000}, {.seed = 2}), rand({30001}, {.seed = 2})};
  });
}

TEST(Scalars, StandOnBothSides) {
  const auto one = [](auto f) {
    return [f](const std::vector<Plain>& in) {
      Values y = in[0].values;
      for (double& v : y) {
        v = f(v);
      }
      return y;
    };
  };
  check_op({.name = "1 - x",
            .op = [](const auto& in) { return 1.0 - in[0]; },
            .reference = one([](double x) { return 1.0 - x; })});
  check_op({.name = "1 + x",
            .op = [](const auto& in) { return 1.0 + in[0]; },
            .reference = one([](double x) { return 1.0 + x; })});
  check_op({.name = "2 / x",
            .op = [](const auto& in) { return 2.0 / in[0]; },
            .reference = one([](double x) { return 2.0 / x; }),
            .low = 0.5});
  check_op({.name = "-x",
            .op = [](const auto& in) { return -in[0]; },
            .reference = one([](double x) { return -x; })});
  check_op({.name = "abs",
            .op = [](const auto& in) { return abs(in[0]); },
            .reference = one([](double x) { return std::abs(x); })});
  check_op({.name = "sin",
            .op = [](const auto& in) { return sin(in[0]); },
            .reference = one([](double x) { return std::sin(x); })});
  check_op({.name = "cos",
            .op = [](const auto& in) { return cos(in[0]); },
            .reference = one([](double x) { return std::cos(x); })});
  check_op({.name = "clamp",
            .op = [](const auto& in) { return clamp(in[0], -1.0, 2.0); },
            .reference = one([](double x) { return std::min(2.0, std::max(-1.0, x)); })});
  check_op({.name = "pow 2",
            .op = [](const auto& in) { return pow(in[0], 2.0); },
            .reference = one([](double x) { return x * x; })});
  check_op({.name = "pow -1.5",
            .op = [](const auto& in) { return pow(in[0], -1.5); },
            .reference = one([](double x) { return std::pow(x, -1.5); }),
            .low = 0.5});
}

TEST(Scalars, ClampAndPowAtTheirEdges) {
  const Tensor x = Tensor::from<double>({-2, 0, 3, kNaN}, {4});
  EXPECT_EQ(values_of(clamp(x, std::nullopt, 1.0))[2], 1.0);
  EXPECT_TRUE(std::isnan(values_of(clamp(x, 0.0, 1.0))[3]));
  EXPECT_NE(message_of([&] { clamp(x, 2.0, 1.0); }).find("low bound 2"), std::string::npos);
  EXPECT_EQ(values_of(pow(x, 0.0)), (Values{1, 1, 1, 1}));
}

TEST(Scalars, IntegersTakeWholeNumbers) {
  const Tensor x = arange(3);
  EXPECT_EQ(values_of(x + 1), (Values{1, 2, 3}));
  EXPECT_EQ((x + 1).dtype(), DType::i64);
  EXPECT_EQ(values_of(2 * x), (Values{0, 2, 4}));
  EXPECT_EQ(values_of(-x), (Values{0, -1, -2}));
  EXPECT_EQ(values_of(5 - x), (Values{5, 4, 3}));
  EXPECT_NE(message_of([&] { x + 0.5; }).find("cast()"), std::string::npos);
}

TEST(Pairs, MaximumAndMinimum) {
  const Tensor a = Tensor::from<double>({1, 5, kNaN, 2}, {4});
  const Tensor b = Tensor::from<double>({2, 4, 1, kNaN}, {4});
  EXPECT_EQ(values_of(maximum(a, b))[0], 2.0);
  EXPECT_EQ(values_of(minimum(a, b))[1], 4.0);
  for (const Tensor& y : {maximum(a, b), minimum(a, b)}) {
    EXPECT_TRUE(std::isnan(values_of(y)[2]));
    EXPECT_TRUE(std::isnan(values_of(y)[3]));
  }
  const std::vector<Tensor> in{random_normal({2, 3}, DType::f64, 1),
                               random_normal({3}, DType::f64, 2)};
  check_gradient([](const auto& v) { return maximum(v[0], v[1]); }, in);
  check_gradient([](const auto& v) { return minimum(v[0], v[1]); }, in);
}

TEST(Comparisons, GiveBooleansForEveryTypeAndSide) {
  for (const DType type :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    const Tensor x = Tensor::arange(4, type);
    EXPECT_EQ((x < 2).dtype(), DType::boolean);
    EXPECT_EQ(values_of(x < 2), (Values{1, 1, 0, 0}));
    EXPECT_EQ(values_of(2 < x), (Values{0, 0, 0, 1}));
    EXPECT_EQ(values_of(x <= 2), (Values{1, 1, 1, 0}));
    EXPECT_EQ(values_of(x > 2), (Values{0, 0, 0, 1}));
    EXPECT_EQ(values_of(2 >= x), (Values{1, 1, 1, 0}));
    EXPECT_EQ(values_of(x == 2), (Values{0, 0, 1, 0}));
    EXPECT_EQ(values_of(x != 2), (Values{1, 1, 0, 1}));
    EXPECT_EQ(values_of(x < 1.5), (Values{1, 1, 0, 0}));
    const Tensor column = reshape(x, {4, 1});
    EXPECT_EQ(count_nonzero(x == column), 4);
    EXPECT_EQ(count_nonzero(x < column), 6);
  }
  const Tensor nan = Tensor::from<double>({kNaN}, {1});
  EXPECT_FALSE(any(nan == nan));
  EXPECT_TRUE(all(nan != nan));
  EXPECT_NE(message_of([] { static_cast<void>(ones({2}) < arange(2)); }).find("cast()"),
            std::string::npos);
}

TEST(Comparisons, CombineAndFeedWhere) {
  const Tensor x = arange(6);
  const Tensor middle = (x > 1) & (x < 4);
  EXPECT_EQ(values_of(middle), (Values{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(values_of(~middle | (x == 2)), (Values{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(values_of(masked_fill(ones({6}), middle, 0.0)), (Values{1, 1, 0, 0, 1, 1}));
  EXPECT_NE(message_of([&] { x& x; }).find("bool"), std::string::npos);
}

TEST(Order, TopkAndSort) {
  const Tensor x = Tensor::from<float>({3, 1, 2, 2, 9, 0, 4, 4}, {2, 4});
  const Ordered best = topk(x, 2);
  EXPECT_EQ(values_of(best.values), (Values{3, 2, 9, 4}));
  EXPECT_EQ(values_of(best.indices), (Values{0, 2, 0, 2}));
  EXPECT_EQ(values_of(topk(x, 1, 0).indices), (Values{1, 0, 1, 1}));
  EXPECT_EQ(values_of(topk(x, 2, -1, false).values), (Values{1, 2, 0, 4}));
  EXPECT_EQ(values_of(sort(x).indices), (Values{1, 2, 3, 0, 1, 2, 3, 0}));
  EXPECT_EQ(values_of(sort(x, -1, true).indices), (Values{0, 2, 3, 1, 0, 2, 3, 1}));
  EXPECT_EQ(topk(x, 0).values.numel(), 0);
  EXPECT_EQ(sort(Tensor::zeros({3, 0})).values.shape(), Shape({3, 0}));
  const Tensor odd = Tensor::from<double>({1, kNaN, 2}, {3});
  EXPECT_EQ(values_of(topk(odd, 2).indices), (Values{1, 2}));
  EXPECT_EQ(values_of(sort(odd).indices), (Values{0, 2, 1}));
  EXPECT_EQ(values_of(sort(arange(3), 0, true).values), (Values{2, 1, 0}));
  EXPECT_NE(message_of([&] { topk(x, 5); }).find("k = 5"), std::string::npos);
  check_gradient([](const auto& v) { return topk(v[0], 2, 1).values; },
                 {random_normal({3, 5, 2}, DType::f64)});
}

TEST(Order, MinAndArgmin) {
  const Tensor x = Tensor::from<float>({3, 1, 1, 2, 9, 0}, {2, 3});
  EXPECT_EQ(values_of(argmin(x, 1)), (Values{1, 2}));
  EXPECT_EQ(values_of(min(x, 0)), (Values{2, 1, 0}));
  EXPECT_EQ(min(x, 1, true).shape(), Shape({2, 1}));
  check_gradient([](const auto& v) { return min(v[0], 1); }, {random_normal({3, 4}, DType::f64)});
}

TEST(Subscripts, ReadLikeNumPy) {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  EXPECT_EQ(x[1].shape(), Shape({3, 4}));
  EXPECT_EQ(x[1][2][-1].item(), 23);
  EXPECT_TRUE(x[1].shares_storage_with(x));
  EXPECT_EQ(values_of(x.slice(2, 1, 3)[0][0]), (Values{1, 2}));
  EXPECT_EQ(values_of(x.slice(-1, -2)[0][0]), (Values{2, 3}));
  EXPECT_EQ(x.slice(0, 1, 100).shape(), Shape({1, 3, 4}));
  EXPECT_EQ(x.slice(0, 2, 1).shape(), Shape({0, 3, 4}));
  EXPECT_EQ(values_of(x.index({0, Slice{1, {}}, 2})), (Values{6, 10}));
  EXPECT_EQ(values_of(x.index({1, 0, Slice{{}, {}, 2}})), (Values{12, 14}));
  EXPECT_EQ(x.index({Slice{}, 0}).shape(), Shape({2, 4}));
  EXPECT_NE(message_of([&] { x[2]; }).find("index 2 out of range"), std::string::npos);
  EXPECT_NE(message_of([&] { x.index({0, 0, 0, 0}); }).find("4 indices"), std::string::npos);
  EXPECT_NE(message_of([&] { x.slice(0, 0, 1, -1); }).find("step of -1"), std::string::npos);
  EXPECT_NE(message_of([&] { Tensor::scalar(1)[0]; }).find("item()"), std::string::npos);
}

TEST(Subscripts, HaveGradients) {
  const std::vector<Tensor> in{random_normal({4, 5}, DType::f64)};
  check_gradient([](const auto& v) { return v[0][2]; }, in);
  check_gradient([](const auto& v) { return v[0].slice(1, 1, {}, 2); }, in);
  check_gradient([](const auto& v) { return v[0].index({Slice{-3, -1}, 1}); }, in);
}

TEST(Version, MacrosAndLibraryAgree) {
  const std::string expected = std::to_string(HEED_VERSION_MAJOR) + "." +
                               std::to_string(HEED_VERSION_MINOR) + "." +
                               std::to_string(HEED_VERSION_PATCH);
  EXPECT_EQ(version(), expected);
}

}  // namespace
}  // namespace heed::test
