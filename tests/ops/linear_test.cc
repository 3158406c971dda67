#include <gtest/gtest.h>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// x·W + b in doubles, one sum after the other.
std::vector<double> plain_linear(const Tensor& x, const Tensor& w, const Tensor& b,
                                 WeightLayout layout) {
  const bool out_in = layout == WeightLayout::out_in;
  const int64_t in = x.size(-1);
  const int64_t out = w.size(out_in ? 0 : 1);
  const int64_t rows = x.numel() / in;
  const auto xs = x.to_doubles();
  const auto ws = w.to_doubles();
  std::vector<double> y(static_cast<size_t>(rows * out));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = b.defined() ? b.to_doubles()[static_cast<size_t>(o)] : 0.0;
      for (int64_t i = 0; i < in; ++i) {
        sum += xs[static_cast<size_t>(r * in + i)] *
               ws[static_cast<size_t>(out_in ? o * in + i : i * out + o)];
      }
      y[static_cast<size_t>(r * out + o)] = sum;
    }
  }
  return y;
}

struct LinearShape {
  int64_t rows, in, out;
};

class LinearShapes : public testing::TestWithParam<LinearShape> {};

TEST_P(LinearShapes, MatchesTheFormula) {
  const auto [rows, in, out] = GetParam();
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
    for (const DType type : {DType::f32, DType::f64}) {
      const Tensor x = random_normal({rows, in}, type, 1);
      const Tensor w = layout == WeightLayout::out_in ? random_normal({out, in}, type, 2)
                                                      : random_normal({in, out}, type, 2);
      const Tensor b = random_normal({out}, type, 3);
      const double allowed = reduction(static_cast<double>(in), static_cast<double>(in), type);
      expect_close(linear(x, w, b, {layout}), plain_linear(x, w, b, layout), {allowed, allowed});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EdgesOfTiles, LinearShapes,
                         testing::Values(LinearShape{1, 1, 1}, LinearShape{1, 7, 33},
                                         LinearShape{5, 385, 31}, LinearShape{12, 64, 128},
                                         LinearShape{13, 3, 129}, LinearShape{32, 40, 65},
                                         LinearShape{33, 40, 65}, LinearShape{145, 400, 257},
                                         LinearShape{300, 5, 48}));

TEST(Linear, ARowDoesNotDependOnTheRowsBesideIt) {
  const Tensor x = random_normal({200, 500}, DType::f32, 4);
  const Tensor w = random_normal({130, 500}, DType::f32, 5);
  const Tensor b = random_normal({130}, DType::f32, 6);
  const Tensor all = linear(x, w, b, {.activation = Activation::gelu});
  for (const int64_t rows : {1, 2, 11, 32, 33, 64}) {
    const Tensor some = linear(slice(x, 0, 7, 7 + rows), w, b, {.activation = Activation::gelu});
    expect_same_bits(some, slice(all, 0, 7, 7 + rows).contiguous(), "rows");
  }
}

TEST(Linear, SameBitsForAnyThreadCount) {
  const Tensor x = random_normal({170, 400}, DType::f32, 4);
  const Tensor w = random_normal({400, 600}, DType::f32, 5);
  expect_same_for_any_thread_count([&] {
    Tensor weight = w.clone().set_requires_grad(true);
    Tensor input = x.clone().set_requires_grad(true);
    const Tensor y = linear(input, weight, {}, {.layout = WeightLayout::in_out});
    backward(sum(mul(y, y)));
    return std::vector<Tensor>{y.detach(), weight.grad(), input.grad()};
  });
}

TEST(Linear, EpilogueIsBiasActivationResidual) {
  const Tensor x = random_normal({40, 30}, DType::f32, 1);
  const Tensor w = random_normal({50, 30}, DType::f32, 2);
  const Tensor b = random_normal({50}, DType::f32, 3);
  const Tensor r = random_normal({40, 50}, DType::f32, 4);
  for (const Activation kind : {Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                Activation::silu, Activation::tanh, Activation::quick_gelu}) {
    expect_same_bits(linear(x, w, b, {.activation = kind, .residual = r}),
                     add(activate(linear(x, w, b), kind), r), "epilogue");
  }
}

TEST(Linear, Gradients) {
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
    for (const Activation kind : {Activation::none, Activation::gelu, Activation::tanh}) {
      const Shape shape = layout == WeightLayout::out_in ? Shape{6, 5} : Shape{5, 6};
      check_gradient(
          [&](const std::vector<Tensor>& in) {
            return linear(in[0], in[1], in[2], {layout, kind, in[3]});
          },
          {random_normal({2, 3, 5}, DType::f64, 1), random_normal(shape, DType::f64, 2),
           random_normal({6}, DType::f64, 3), random_normal({2, 3, 6}, DType::f64, 4)});
    }
  }
}

TEST(Linear, HalfWeightsGiveTheProductOfTheirF32Values) {
  for (const DType type : {DType::f16, DType::bf16}) {
    const Tensor x = random_normal({3, 70}, DType::f32, 1);
    const Tensor w = random_normal({45, 70}, DType::f32, 2).to(type);
    expect_norm_close(linear(x, w, {}), linear(x, w.to(DType::f32), {}), 1e-6, name_of(type));
  }
}

TEST(Linear, NarrowActivations) {
  const Tensor x = random_normal({40, 64}, DType::f32, 1).to(DType::bf16);
  const Tensor w = random_normal({48, 64}, DType::f32, 2).to(DType::bf16);
  const Tensor y = linear(x, w, {});
  EXPECT_EQ(y.dtype(), DType::bf16);
  expect_close(y.to(DType::f32), linear(x.to(DType::f32), w.to(DType::f32), {}), {1.6e-2, 1e-2});
}

TEST(Linear, AnEmptySumIsTheBias) {
  const Tensor b = random_normal({4});
  expect_same_bits(linear(Tensor::zeros({3, 0}), Tensor::zeros({4, 0}), b),
                   expand(b, {3, 4}).contiguous(), "bias");
  EXPECT_EQ(linear(Tensor::zeros({0, 5}), Tensor::zeros({4, 5}), b).shape(), Shape({0, 4}));
}

TEST(Linear, BadArgumentsAreNamed) {
  const Tensor x = random_normal({2, 5});
  EXPECT_ERROR(linear(x, random_normal({3, 4}), {}),
               "linear: input [2, 5] does not fit weight [3, 4] ([out, in])");
  EXPECT_ERROR(linear(x, random_normal({3}), {}), "linear: weight [3] is no matrix");
  EXPECT_ERROR(linear(x, random_normal({3, 5}), random_normal({4})),
               "linear: bias [4] does not fit 3 outputs");
  EXPECT_ERROR(linear(x.to(DType::f64), random_normal({3, 5}), {}),
               "linear: f64 goes only with f64: input f64, weight f32");
  EXPECT_ERROR(linear(Tensor::zeros({2, 5}, DType::i64), random_normal({3, 5}), {}),
               "linear: takes floating inputs, not i64");
  EXPECT_ERROR(linear(x, random_normal({3, 5}), {}, {.residual = random_normal({2, 4})}),
               "linear: residual [2, 4] does not fit result [2, 3]");
  try {
    linear(x, random_normal({3, 4}), {});
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "linear: input [2, 5] does not fit weight [3, 4] ([out, in])");
  }
}

TEST(Matmul, MatchesLinearAndBroadcasts) {
  const Tensor a = random_normal({2, 3, 4, 5}, DType::f64, 1);
  const Tensor b = random_normal({3, 5, 6}, DType::f64, 2);
  const Tensor y = matmul(a, b);
  EXPECT_EQ(y.shape(), Shape({2, 3, 4, 6}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      expect_same_bits(select(select(y, 0, i), 0, j).contiguous(),
                       linear(select(select(a, 0, i), 0, j).contiguous(), select(b, 0, j), {},
                              {.layout = WeightLayout::in_out}),
                       "item");
    }
  }
}

TEST(Matmul, TransposedViewsNeedNoCopy) {
  const Tensor a = random_normal({7, 9}, DType::f64, 1);
  const Tensor b = random_normal({7, 8}, DType::f64, 2);
  expect_same_bits(matmul(transpose(a), b), matmul(transpose(a).contiguous(), b), "transposed");
}

TEST(Matmul, Gradients) {
  auto product = [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); };
  check_gradient(product,
                 {random_normal({4, 3}, DType::f64, 1), random_normal({3, 2}, DType::f64, 2)});
  check_gradient(product, {random_normal({2, 1, 4, 3}, DType::f64, 1),
                           random_normal({5, 3, 2}, DType::f64, 2)});
}

TEST(Matmul, BadArgumentsAreNamed) {
  EXPECT_ERROR(matmul(random_normal({2, 3}), random_normal({4, 2})),
               "matmul: inner dimensions of [2, 3] and [4, 2] differ");
  EXPECT_ERROR(matmul(random_normal({3}), random_normal({3, 2})),
               "matmul: takes matrices, not [3] and [3, 2]");
  EXPECT_ERROR(matmul(random_normal({2, 2, 3}), random_normal({3, 3, 2})),
               "matmul: shapes [2] and [3] do not broadcast");
  EXPECT_ERROR(matmul(random_normal({2, 3}), random_normal({3, 2}, DType::f64)),
               "matmul: takes two tensors of one type, not f32 and f64");
}

}  // namespace
}  // namespace heed::test
