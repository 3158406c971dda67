#include <gtest/gtest.h>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

Tensor counting(const Shape& shape, DType type = DType::f64) {
  const Tensor flat = Tensor::arange(shape.numel(), type);
  return flat.alias(shape, contiguous_strides(shape), 0);
}

TEST(Views, ReshapeSharesMemoryWhereStridesAllow) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_TRUE(reshape(x, {6, 4}).shares_storage_with(x));
  EXPECT_EQ(reshape(x, {4, -1}).shape(), Shape({4, 6}));
  const Tensor heads = reshape(transpose(x, 0, 1), {3, 2, 2, 2});  // splits the last axis only
  EXPECT_TRUE(heads.shares_storage_with(x));
  EXPECT_EQ(heads.to_doubles(), contiguous(transpose(x, 0, 1)).to_doubles());
  const Tensor joined = reshape(transpose(x, 0, 1), {6, 4});
  EXPECT_FALSE(joined.shares_storage_with(x));
  EXPECT_EQ(joined.to_doubles(), transpose(x, 0, 1).to_doubles());
}

TEST(Views, ReshapeOfSlicesAndRepeatsKeepsTheOrder) {
  const Tensor x = counting({4, 6});
  const Tensor columns = slice(x, 1, 1, 5);
  EXPECT_EQ(reshape(columns, {4, 2, 2}).to_doubles(), columns.to_doubles());
  EXPECT_EQ(reshape(columns, {16}).to_doubles(), columns.to_doubles());
  const Tensor repeated = expand(slice(x, 0, 0, 1), {3, 6});
  EXPECT_EQ(reshape(repeated, {18}).to_doubles(), repeated.to_doubles());
  EXPECT_EQ(reshape(counting({0, 3}), {3, 0}).numel(), 0);
  EXPECT_EQ(reshape(transpose(Tensor::zeros({0, 3})), {0}).numel(), 0);
}

TEST(Views, PermuteMatchesItsDefinition) {
  const Tensor x = counting({2, 3, 4, 5});
  const Tensor y = permute(x, {0, 2, 1, 3});
  ASSERT_EQ(y.shape(), Shape({2, 4, 3, 5}));
  const std::vector<double> values = y.to_doubles();
  for (int64_t b = 0, i = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t d = 0; d < 5; ++d, ++i) {
          ASSERT_EQ(values[static_cast<size_t>(i)],
                    static_cast<double>(((b * 3 + t) * 4 + h) * 5 + d));
        }
      }
    }
  }
}

TEST(Views, CopiesOfEveryPermutationAndType) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::i32, DType::u8}) {
    const Tensor x = counting({3, 4, 2, 5}, type);
    const std::vector<double> flat = x.to_doubles();
    int order[] = {0, 1, 2, 3};
    do {
      const Tensor y = contiguous(permute(x, {order[0], order[1], order[2], order[3]}));
      const std::vector<double> values = y.to_doubles();
      for (int64_t i = 0; i < y.numel(); ++i) {
        int64_t rest = i;
        int64_t at = 0;
        for (int axis = 3; axis >= 0; --axis) {
          at += rest % y.shape()[axis] * x.strides()[order[axis]];
          rest /= y.shape()[axis];
        }
        ASSERT_EQ(values[static_cast<size_t>(i)], flat[static_cast<size_t>(at)]);
      }
    } while (std::next_permutation(order, order + 4));
  }
}

TEST(Views, LargeTransposesAreExact) {
  for (const Shape& shape : {Shape{513, 130}, Shape{65, 33, 70}, Shape{2, 300, 4, 64}}) {
    const Tensor x = random_normal(shape, DType::f32);
    const Tensor there = contiguous(transpose(x, -2, -1));
    expect_same_bits(contiguous(transpose(there, -2, -1)), x);
    const std::vector<double> before = x.to_doubles();
    const std::vector<double> after = there.to_doubles();
    const int64_t rows = shape[shape.rank() - 2];
    const int64_t columns = shape[shape.rank() - 1];
    for (int64_t i = 0; i < x.numel(); i += 7) {
      const int64_t matrix = i / (rows * columns);
      const int64_t at = (matrix * columns + i % columns) * rows + i / columns % rows;
      ASSERT_EQ(after[static_cast<size_t>(at)], before[static_cast<size_t>(i)]);
    }
  }
}

TEST(Views, SelectSqueezeUnsqueeze) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(select(x, 0, 1).to_doubles(), (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(select(x, 1, -1).to_doubles(), (std::vector<double>{2, 5}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), Shape({2, 3, 1}));
  EXPECT_EQ(unsqueeze(x, 0).shape(), Shape({1, 2, 3}));
  EXPECT_EQ(squeeze(unsqueeze(x, 1), 1).shape(), x.shape());
  EXPECT_TRUE(unsqueeze(x, 1).is_contiguous());
}

TEST(Views, Gradients) {
  const std::vector<Tensor> x{random_normal({2, 3, 4}, DType::f64)};
  check_gradient([](const auto& in) { return reshape(transpose(in[0], 0, 2), {-1, 2}); }, x);
  check_gradient([](const auto& in) { return permute(in[0], {2, 0, 1}); }, x);
  check_gradient([](const auto& in) { return slice(in[0], 1, 1, 3); }, x);
  check_gradient([](const auto& in) { return select(in[0], 2, 1); }, x);
  check_gradient([](const auto& in) { return expand(slice(in[0], 1, 0, 1), {5, 2, 3, 4}); }, x);
  check_gradient([](const auto& in) { return unsqueeze(squeeze(slice(in[0], 0, 1, 2), 0), 1); }, x);
  check_gradient([](const auto& in) { return contiguous(transpose(in[0])); }, x);
}

TEST(Views, CastRoundTripsAndHasAGradient) {
  const Tensor x = random_normal({33}, DType::f32);
  for (const DType type : {DType::f16, DType::bf16, DType::f64}) {
    const Tensor y = cast(x, type);
    expect_same_bits(y, x.to(type));
    expect_close(cast(y, DType::f32), x, elementwise(type));
  }
  Tensor leaf = x.clone().set_requires_grad(true);
  backward(sum(cast(leaf, DType::bf16)));
  EXPECT_EQ(leaf.grad().dtype(), DType::f32);
  expect_close(leaf.grad(), std::vector<double>(33, 1.0), elementwise(DType::f32));
  EXPECT_EQ(cast(Tensor::from({1.5f, -2.0f, 0.0f}, {3}), DType::boolean).to_doubles(),
            (std::vector<double>{1, 1, 0}));
}

TEST(Views, BadInput) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_ERROR(reshape(x, {4}), "reshape: shape [2, 3] has 6 elements, [4] has 4");
  EXPECT_ERROR(reshape(x, {-1, -1}), "reshape: [-1, -1] has more than one unknown dimension");
  EXPECT_ERROR(reshape(x, {-2, 3}), "reshape: [-2, 3] has a negative dimension");
  EXPECT_ERROR(reshape(x, {int64_t{1} << 62, 4}),
               "shape: [4611686018427387904, 4] has more elements than can be addressed");
  EXPECT_ERROR(reshape(Tensor::zeros({0}), {-1, 0}),
               "reshape: shape [0] does not divide into [-1, 0]");
  EXPECT_ERROR(reshape(Tensor(), {1}), "reshape: input is undefined");
  EXPECT_ERROR(transpose(x, 0, 2), "transpose: axis 2 out of range for shape [2, 3]");
  EXPECT_ERROR(transpose(Tensor::zeros({3})), "transpose: axis -2 out of range for shape [3]");
  EXPECT_ERROR(permute(x, {0, 0}), "permute: order [0, 0] names an axis twice");
  EXPECT_ERROR(permute(x, {0}), "permute: order [0] must name every axis of shape [2, 3] once");
  EXPECT_ERROR(permute(x, {0, 7}), "permute: axis 7 out of range for shape [2, 3]");
  EXPECT_ERROR(slice(x, 0, 1, 3), "slice: [1, 3) out of range for axis 0 of shape [2, 3]");
  EXPECT_ERROR(slice(x, 0, -1, 1), "slice: [-1, 1) out of range for axis 0 of shape [2, 3]");
  EXPECT_ERROR(slice(x, 0, 2, 1), "slice: [2, 1) out of range for axis 0 of shape [2, 3]");
  EXPECT_ERROR(select(x, 1, 3), "select: index 3 out of range for axis 1 of shape [2, 3]");
  EXPECT_ERROR(select(x, 1, -4), "select: index -4 out of range for axis 1 of shape [2, 3]");
  EXPECT_ERROR(expand(x, {3, 3}), "expand: shapes [2, 3] and [3, 3] do not broadcast");
  EXPECT_ERROR(expand(x, {3}), "expand: shape [2, 3] does not expand to [3]");
  EXPECT_ERROR(squeeze(x, 0), "squeeze: axis 0 of shape [2, 3] is not 1");
  EXPECT_ERROR(unsqueeze(x, 3), "unsqueeze: axis 3 out of range for shape [2, 3]");
  EXPECT_ERROR(cast(x, DType::q8_0), "cast: to q8_0: quantize() does that");
  EXPECT_ERROR(Tensor::zeros({int64_t{1} << 62, 2}),
               "shape: [4611686018427387904, 2] has more elements than can be addressed");
}

}  // namespace
}  // namespace heed::test
