#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/error.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

using Reference = std::function<std::vector<double>(const std::vector<Plain>&)>;

Reference mapped(double (*f)(double)) {
  return [f](const std::vector<Plain>& in) {
    std::vector<double> y = in[0].values;
    for (double& value : y) {
      value = f(value);
    }
    return y;
  };
}

Reference mapped(double (*f)(double, double)) {
  return [f](const std::vector<Plain>& in) {
    std::vector<double> y = in[0].values;
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = f(y[i], in[1].values[i % in[1].values.size()]);
    }
    return y;
  };
}

double gelu_of(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double silu_of(double x) { return x * sigmoid_of(x); }
double quick_gelu_of(double x) { return x * sigmoid_of(1.702 * x); }
double relu_of(double x) { return x > 0 ? x : 0; }

TEST(Unary, AllOfThem) {
  struct Entry {
    const char* name;
    Tensor (*op)(const Tensor&);
    double (*reference)(double);
    double low;
    double high;
  };
  const Entry entries[] = {
      {"exp", exp, [](double x) { return std::exp(x); }, -9, 3},
      {"log", log, [](double x) { return std::log(x); }, 0.1, 30},
      {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.1, 30},
      {"tanh", tanh, [](double x) { return std::tanh(x); }, -6, 6},
      {"sigmoid", sigmoid, sigmoid_of, -20, 20},
      {"relu", relu, relu_of, -3, 3},
      {"gelu", gelu, gelu_of, -6, 6},
      {"gelu_tanh", gelu_tanh, gelu_tanh_of, -6, 6},
      {"silu", silu, silu_of, -9, 9},
      {"quick_gelu", quick_gelu, quick_gelu_of, -6, 6},
  };
  for (const Entry& entry : entries) {
    check_op({.name = entry.name,
              .op = [&](const auto& in) { return entry.op(in[0]); },
              .reference = mapped(entry.reference),
              .low = entry.low,
              .high = entry.high});
  }
}

TEST(Unary, GatedIsTheProduct) {
  const auto twice = [](int64_t n) { return std::vector<Shape>{{n}, {n}}; };
  struct Entry {
    Activation kind;
    double (*reference)(double, double);
  };
  const Entry entries[] = {
      {Activation::none, [](double g, double u) { return g * u; }},
      {Activation::relu, [](double g, double u) { return relu_of(g) * u; }},
      {Activation::gelu, [](double g, double u) { return gelu_of(g) * u; }},
      {Activation::gelu_tanh, [](double g, double u) { return gelu_tanh_of(g) * u; }},
      {Activation::silu, [](double g, double u) { return silu_of(g) * u; }},
      {Activation::tanh, [](double g, double u) { return std::tanh(g) * u; }},
      {Activation::sigmoid, [](double g, double u) { return sigmoid_of(g) * u; }},
      {Activation::quick_gelu, [](double g, double u) { return quick_gelu_of(g) * u; }},
  };
  for (const Entry& entry : entries) {
    check_op({.name = "gated " + std::to_string(static_cast<int>(entry.kind)),
              .op = [&](const auto& in) { return gated(in[0], in[1], entry.kind); },
              .reference = mapped(entry.reference),
              .shapes = twice});
    const Tensor x = random_normal({33}, DType::f64);
    expect_close(activate(x, entry.kind), gated(x, Tensor::full({33}, 1.0, DType::f64), entry.kind),
                 elementwise(DType::f64));
  }
}

/// Largest error of a function over a range, in units of the last place of the true result.
double worst_ulps(Tensor (*op)(const Tensor&), double (*reference)(double), double low,
                  double high) {
  constexpr int64_t kCount = 200000;
  const Tensor x = random_uniform({kCount}, low, high);
  const std::vector<double> inputs = x.to_doubles();
  const std::vector<double> actual = op(x).to_doubles();
  double worst = 0.0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double expected = reference(inputs[i]);
    const auto rounded = static_cast<float>(expected);
    const double ulp = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
    worst = std::max(worst, std::abs(actual[i] - expected) / ulp);
  }
  return worst;
}

TEST(Unary, ErrorsInUnitsOfTheLastPlace) {
  for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    EXPECT_LT(worst_ulps(
                  exp, [](double x) { return std::exp(x); }, -87, 88),
              1.5);
    EXPECT_LT(worst_ulps(
                  exp, [](double x) { return std::exp(x); }, -103, -80),
              1.5);
    EXPECT_LT(worst_ulps(
                  log, [](double x) { return std::log(x); }, 1e-30, 5),
              2);
    EXPECT_LT(worst_ulps(
                  tanh, [](double x) { return std::tanh(x); }, -9, 9),
              3);
    EXPECT_LT(worst_ulps(
                  tanh, [](double x) { return std::tanh(x); }, -1e-3, 1e-3),
              3);
    EXPECT_LT(worst_ulps(sigmoid, sigmoid_of, -80, 80), 3);
    EXPECT_LT(worst_ulps(gelu, gelu_of, -1, 8), 6);  // half of the elementwise allowance
  });
}

TEST(Unary, EdgesOfTheRange) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for_each_target([&](const char* target) {
    SCOPED_TRACE(target);
    for (const DType type : {DType::f32, DType::f64}) {
      const Tensor x = Tensor::from({-kInfinity, -1e30, 0.0, 1e30, kInfinity, nan}, {6}).to(type);
      const auto values = [&](Tensor (*op)(const Tensor&)) { return op(x).to_doubles(); };
      const auto expect = [&](const char* name, const std::vector<double>& actual,
                              const std::vector<double>& wanted) {
        for (size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_TRUE(actual[i] == wanted[i] || (std::isnan(actual[i]) && std::isnan(wanted[i])))
              << name << " element " << i << ": " << actual[i] << ", wanted " << wanted[i];
        }
      };
      expect("exp", values(exp), {0, 0, 1, kInfinity, kInfinity, nan});
      expect("tanh", values(tanh), {-1, -1, 0, 1, 1, nan});
      expect("sigmoid", values(sigmoid), {0, 0, 0.5, 1, 1, nan});
      expect("relu", values(relu), {0, 0, 0, x.to_doubles()[3], kInfinity, nan});
      EXPECT_EQ(values(log)[2], -kInfinity);
      EXPECT_EQ(values(log)[4], kInfinity);
      EXPECT_TRUE(std::isnan(values(log)[1]) && std::isnan(values(log)[5]));
      EXPECT_TRUE(std::isnan(values(gelu)[5]) && std::isnan(values(silu)[5]));
      EXPECT_EQ(values(gelu)[1], 0.0);
      EXPECT_EQ(values(gelu_tanh)[1], 0.0);
    }
  });
}

TEST(Binary, AllOfThemOnEqualShapes) {
  const auto twice = [](int64_t n) { return std::vector<Shape>{{n}, {n}}; };
  struct Entry {
    const char* name;
    Tensor (*op)(const Tensor&, const Tensor&);
    double (*reference)(double, double);
  };
  const Entry entries[] = {
      {"add", add, [](double a, double b) { return a + b; }},
      {"sub", sub, [](double a, double b) { return a - b; }},
      {"mul", mul, [](double a, double b) { return a * b; }},
      {"div", div, [](double a, double b) { return a / b; }},
  };
  for (const Entry& entry : entries) {
    check_op({.name = entry.name,
              .op = [&](const auto& in) { return entry.op(in[0], in[1]); },
              .reference = mapped(entry.reference),
              .shapes = twice,
              .low = 0.5});
    check_op({.name = std::string(entry.name) + " of rows and a vector",
              .op = [&](const auto& in) { return entry.op(in[0], in[1]); },
              .reference = mapped(entry.reference),
              .shapes =
                  [](int64_t n) {
                    return std::vector<Shape>{{3, n}, {n}};
                  },
              .low = 0.5,
              .shortest = 1});
    check_op({.name = std::string(entry.name) + " of an array and a scalar",
              .op = [&](const auto& in) { return entry.op(in[0], in[1]); },
              .reference = mapped(entry.reference),
              .shapes =
                  [](int64_t n) {
                    return std::vector<Shape>{{n}, {}};
                  },
              .low = 0.5});
  }
}

TEST(Binary, ScalarsAreNotRoundedToTheShortType) {
  check_op({.name = "add 0.1",
            .op = [](const auto& in) { return add(in[0], 0.1); },
            .reference = mapped([](double x) { return x + 0.1; })});
  check_op({.name = "mul 0.3",
            .op = [](const auto& in) { return mul(in[0], 0.3); },
            .reference = mapped([](double x) { return x * 0.3; })});
  const Tensor x = Tensor::full({1}, 256.0, DType::bf16);
  EXPECT_EQ((x * 0.33).item(), 84.5);
  EXPECT_EQ((x - 6.0).item(), 250.0);
  EXPECT_EQ((x / 4.0).item(), 64.0);
}

/// Any two broadcastable shapes, by walking indices.
TEST(Binary, BroadcastsLikeNumPy) {
  const std::pair<Shape, Shape> pairs[] = {
      {{2, 3, 4}, {4}},       {{2, 3, 4}, {3, 1}}, {{2, 1, 4}, {3, 1}}, {{1}, {2, 2}},
      {{5, 1, 1, 3}, {2, 1}}, {{}, {3, 2}},        {{2, 3}, {2, 1}},    {{1, 7}, {6, 1}},
  };
  for (const auto& [a_shape, b_shape] : pairs) {
    const Tensor a = random_normal(a_shape, DType::f64, 1);
    const Tensor b = random_normal(b_shape, DType::f64, 2);
    const Shape shape = broadcast_shapes(a_shape, b_shape, "test");
    const std::vector<double> y = mul(a, b).to_doubles();
    const std::vector<double> av = expand(a, shape).to_doubles();
    const std::vector<double> bv = expand(b, shape).to_doubles();
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], av[i] * bv[i]);
    }
    for (auto* op : {static_cast<Tensor (*)(const Tensor&, const Tensor&)>(add),
                     static_cast<Tensor (*)(const Tensor&, const Tensor&)>(sub),
                     static_cast<Tensor (*)(const Tensor&, const Tensor&)>(mul),
                     static_cast<Tensor (*)(const Tensor&, const Tensor&)>(div)}) {
      check_gradient([op](const auto& in) { return op(in[0], in[1]); }, {a, add(mul(b, b), 0.5)});
    }
  }
}

TEST(Binary, TakesStridedOperandsAndWholeNumbers) {
  const Tensor a = random_normal({30, 7}, DType::f32, 1);
  const Tensor b = random_normal({7, 30}, DType::f32, 2);
  expect_same_bits(add(transpose(a), b), add(contiguous(transpose(a)), b));
  expect_same_bits(mul(slice(a, 1, 2, 3), slice(a, 1, 0, 4)),
                   mul(contiguous(slice(a, 1, 2, 3)), contiguous(slice(a, 1, 0, 4))));
  const Tensor i = Tensor::from<int64_t>({1, 2, 3}, {3});
  EXPECT_EQ(add(i, mul(i, i)).to_doubles(), (std::vector<double>{2, 6, 12}));
  EXPECT_EQ(sub(i, Tensor::from<int64_t>({5}, {})).to_doubles(), (std::vector<double>{-4, -3, -2}));
}

TEST(Binary, BadInput) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_ERROR(add(x, Tensor::zeros({2})), "add: shapes [2, 3] and [2] do not broadcast");
  EXPECT_ERROR(add(x, Tensor::zeros({2, 3}, DType::f64)),
               "add: [2, 3] of f32 meets [2, 3] of f64; cast() one of them");
  EXPECT_ERROR(add(x, Tensor()), "add: input is undefined");
  EXPECT_ERROR(div(Tensor::zeros({1}, DType::i64), Tensor::zeros({1}, DType::i64)),
               "div: does not take i64 tensors");
  EXPECT_ERROR(add(Tensor::zeros({1}, DType::boolean), Tensor::zeros({1}, DType::boolean)),
               "add: does not take bool tensors");
  EXPECT_ERROR(exp(Tensor::zeros({1}, DType::i64)),
               "exp: input [1] of i64: a floating type is wanted");
  EXPECT_ERROR(gelu(Tensor()), "gelu: input is undefined");
  EXPECT_ERROR(gated(x, Tensor::zeros({3, 2}), Activation::silu),
               "gated: gate [2, 3] and up [3, 2] differ");
  EXPECT_ERROR(mul(Tensor::zeros({1}, DType::i64), 2.5),
               "mul: [1] of i64 meets a fraction; cast() the tensor to a floating type first");
  const Tensor repeated = expand(Tensor::zeros({1}), {int64_t{1} << 40});
  EXPECT_ERROR(add(unsqueeze(repeated, 0), unsqueeze(repeated, 1)),
               "shape: [1099511627776, 1099511627776] has more elements than can be addressed");
  try {
    add(x, Tensor::zeros({2}));
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "add: shapes [2, 3] and [2] do not broadcast");
  }
}

}  // namespace
}  // namespace heed::test
