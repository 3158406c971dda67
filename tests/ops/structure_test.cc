#include <gtest/gtest.h>

#include <cmath>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

Tensor ids(std::initializer_list<int64_t> values, const Shape& shape) {
  return Tensor::from<int64_t>(values, shape);
}

TEST(Structure, ConcatSplitStack) {
  const Tensor a = Tensor::from({1.0, 2.0}, {2, 1});
  const Tensor b = Tensor::from({3.0, 4.0, 5.0, 6.0}, {2, 2});
  EXPECT_EQ(concat({a, b}, 1).to_doubles(), (std::vector<double>{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(concat({a, b}, -1).shape(), Shape({2, 3}));
  EXPECT_EQ(stack({a, a}, 0).shape(), Shape({2, 2, 1}));
  EXPECT_EQ(stack({b, b}, -1).to_doubles(), (std::vector<double>{3, 3, 4, 4, 5, 5, 6, 6}));
  const std::vector<Tensor> parts = split(b, {2, 0}, 0);
  EXPECT_EQ(parts[1].numel(), 0);
  EXPECT_TRUE(parts[0].shares_storage_with(b));
  EXPECT_EQ(concat({Tensor::zeros({0, 2}, DType::i64), ids({1, 2}, {1, 2})}, 0).to_doubles(),
            (std::vector<double>{1, 2}));
}

TEST(Structure, ConcatSplitStackGradients) {
  const std::vector<Tensor> in{random_normal({2, 3, 2}, DType::f64, 1),
                               random_normal({2, 1, 2}, DType::f64, 2)};
  check_gradient([](const auto& v) { return concat({v[0], v[1], v[0]}, 1); }, in);
  check_gradient([](const auto& v) { return stack({v[0], mul(v[0], 2.0)}, 1); }, in);
  check_gradient(
      [](const auto& v) {
        const auto parts = split(v[0], {1, 2}, 1);
        return mul(expand(parts[0], {2, 2, 2}), parts[1]);
      },
      in);
  check_gradient([](const auto& v) { return split(v[0], {1, 2}, 1)[1]; }, in);
  check_gradient([](const auto& v) { return chunks(v[0], 2, 1)[1]; }, in);
}

TEST(Structure, GatherAndIndexRows) {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3});
  EXPECT_EQ(gather(x, 1, ids({2, 2, 0, 1}, {2, 2})).to_doubles(),
            (std::vector<double>{3, 3, 4, 5}));
  EXPECT_EQ(gather(x, 0, ids({1, 0}, {1, 2})).to_doubles(), (std::vector<double>{4, 2}));
  EXPECT_EQ(index_rows(x, ids({1, 1, 0}, {3})).shape(), Shape({3, 3}));
  EXPECT_EQ(embedding(x, ids({0, 1, 1, 0}, {2, 2})).shape(), Shape({2, 2, 3}));
  EXPECT_EQ(embedding(x, Tensor::from<int32_t>({1}, {1})).to_doubles(),
            (std::vector<double>{4, 5, 6}));
  const std::vector<Tensor> in{random_normal({4, 3}, DType::f64)};
  check_gradient(
      [](const auto& v) {
        return gather(v[0], 0, ids({0, 3, 0, 0, 1, 2}, {2, 3}));
      },
      in);
  check_gradient([](const auto& v) { return index_rows(v[0], ids({3, 0, 3, 3}, {4})); }, in);
  check_gradient([](const auto& v) { return embedding(v[0], ids({3, 0, 3, 3}, {2, 2})); }, in);
}

TEST(Structure, EmbeddingGradientHasOneOrderForAnyThreadCount) {
  const Tensor weight = random_normal({50, 33});
  const Tensor index = random_indices({7, 211}, 50);
  expect_same_for_any_thread_count([&] {
    Tensor leaf = weight.clone().set_requires_grad(true);
    const Tensor y = embedding(leaf, index);
    backward(y, random_normal(y.shape(), DType::f32, 3));
    return std::vector{leaf.grad()};
  });
}

TEST(Structure, WhereAndMaskedFill) {
  const Tensor condition = Tensor::from<uint8_t>({1, 0, 1}, {3});
  const std::vector<Tensor> in{random_normal({2, 3}, DType::f64, 1),
                               random_normal({2, 1}, DType::f64, 2)};
  const Tensor y = where(condition, in[0], in[1]);
  const std::vector<double> a = in[0].to_doubles();
  const std::vector<double> b = in[1].to_doubles();
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{a[0], b[0], a[2], a[3], b[1], a[5]}));
  check_gradient([&](const auto& v) { return where(condition, v[0], v[1]); }, in);
  check_gradient([&](const auto& v) { return masked_fill(v[0], condition.to(DType::boolean), -2); },
                 in);
  // What is not chosen does not leak, NaN included, neither forward nor backward.
  Tensor bad = Tensor::full({3}, NAN, DType::f64).set_requires_grad(true);
  const Tensor safe = masked_fill(bad, Tensor::full({3}, 1, DType::u8), 0.0);
  backward(sum(safe));
  EXPECT_EQ(bad.grad().to_doubles(), (std::vector<double>{0, 0, 0}));
}

TEST(Structure, UnfoldPatchesIsRowMajor) {
  const Tensor images = Tensor::arange(2 * 2 * 4 * 6, DType::f64);
  const Tensor y = unfold_patches(reshape(images, {2, 2, 4, 6}), 2, 3);
  ASSERT_EQ(y.shape(), Shape({2, 4, 12}));
  EXPECT_EQ(slice(select(y, 0, 0), 0, 1, 2).to_doubles(),
            (std::vector<double>{3, 4, 5, 9, 10, 11, 27, 28, 29, 33, 34, 35}));
  check_gradient([](const auto& v) { return unfold_patches(v[0], 2, 2); },
                 {random_normal({1, 2, 4, 2}, DType::f64)});
  EXPECT_ERROR(unfold_patches(Tensor::zeros({1, 3, 5, 4}), 2, 2),
               "unfold_patches: patches of 2 x 2 do not tile images [1, 3, 5, 4]");
  EXPECT_ERROR(unfold_patches(Tensor::zeros({1, 3, 4, 4}), 0, 2),
               "unfold_patches: patches of 0 x 2 do not tile images [1, 3, 4, 4]");
  EXPECT_ERROR(unfold_patches(Tensor::zeros({3, 4, 4}), 2, 2),
               "unfold_patches: images [3, 4, 4]; [batch, channels, height, width] is wanted");
}

TEST(Dropout, DropsTheRightShareAndReplaysInTheGradient) {
  manual_seed(11);
  Tensor x = Tensor::full({200, 500}, 1.0).set_requires_grad(true);
  const Tensor y = dropout(x, 0.25, true);
  int64_t zeros = 0;
  for (const double value : y.to_doubles()) {
    ASSERT_TRUE(value == 0.0 || std::abs(value - 4.0 / 3) < 1e-6);
    zeros += value == 0.0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(zeros) / 1e5, 0.25, 0.005);  // 3.6 standard deviations
  backward(y, Tensor::full(y.shape(), 1.0));
  expect_same_bits(x.grad(), y);
  EXPECT_NE(dropout(x, 0.25, true).to_doubles(), y.to_doubles());
  EXPECT_TRUE(dropout(x, 0.25, false).same_as(x));
  EXPECT_TRUE(dropout(x, 0.0, true).same_as(x));
  EXPECT_ERROR(dropout(x, 1.0, true), "dropout: probability 1 is not in [0, 1)");
  EXPECT_ERROR(dropout(x, -0.1, true), "dropout: probability -0.1 is not in [0, 1)");
  EXPECT_ERROR(dropout(x, NAN, true), "dropout: probability nan is not in [0, 1)");
}

TEST(Dropout, TheMaskIsPhiloxByPositionForEveryType) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    manual_seed(123456789012345);
    next_random_key();
    const RandomKey key{random_state().seed, random_state().next_stream};
    const std::vector<double> y = dropout(Tensor::full({1003}, 1.0, type), 0.5, true).to_doubles();
    for (size_t i = 0; i < y.size(); ++i) {
      const uint32_t word = philox(key.seed, key.stream, i / 4)[i % 4];
      ASSERT_EQ(y[i], word >= 0x80000000u ? 2.0 : 0.0) << i;
    }
  }
}

TEST(Dropout, AnExampleMaskDoesNotDependOnItsBatch) {
  const Tensor x = Tensor::full({6, 5, 3}, 1.0);
  const auto masked = [&](int64_t first, int64_t count) {
    manual_seed(9);
    return dropout(slice(x, 0, first, first + count), 0.5, true, {first, count, {}}).to_doubles();
  };
  const std::vector<double> whole = masked(0, 6);
  std::vector<double> parts = masked(0, 2);
  for (const double value : masked(2, 4)) {
    parts.push_back(value);
  }
  EXPECT_EQ(whole, parts);
  EXPECT_NE(masked(0, 1), masked(1, 1));

  // Rows of different lengths: the beginning of a longer example.
  const std::vector<int64_t> starts = {0, 5, 7};
  manual_seed(9);
  const std::vector<double> rows =
      dropout(Tensor::full({7, 3}, 1.0), 0.5, true, {0, 2, starts}).to_doubles();
  EXPECT_EQ(std::vector<double>(rows.begin(), rows.begin() + 15),
            std::vector<double>(whole.begin(), whole.begin() + 15));
  EXPECT_EQ(std::vector<double>(rows.begin() + 15, rows.end()),
            std::vector<double>(whole.begin() + 15, whole.begin() + 21));
}

TEST(Dropout, AttentionDrawsByExampleToo) {
  const Tensor v = random_normal({4, 2, 5, 8}, DType::f32, 3);
  AttentionOptions options;
  options.dropout = 0.5;
  options.training = true;
  const auto run = [&](int64_t first, int64_t count) {
    manual_seed(4);
    options.first_example = first;
    const Tensor part = slice(v, 0, first, first + count);
    return attention(part, part, part, options).to_doubles();
  };
  const std::vector<double> whole = run(0, 4);
  std::vector<double> parts = run(0, 1);
  for (const double value : run(1, 3)) {
    parts.push_back(value);
  }
  EXPECT_EQ(whole, parts);
}

TEST(Recurrent, CellsMatchTheirComposition) {
  const std::vector<Tensor> in{
      random_normal({2, 3}, DType::f64, 1),  random_normal({2, 5}, DType::f64, 2),
      random_normal({2, 5}, DType::f64, 3),  random_normal({20, 3}, DType::f64, 4),
      random_normal({20, 5}, DType::f64, 5), random_normal({20}, DType::f64, 6),
      random_normal({20}, DType::f64, 7)};
  const LstmState state = lstm_cell(in[0], {in[1], in[2]}, in[3], in[4], in[5], in[6]);
  const Tensor gates = add(linear(in[0], in[3], in[5]), linear(in[1], in[4], in[6]));
  const auto part = split(gates, {5, 5, 5, 5}, 1);
  const Tensor c = add(mul(sigmoid(part[1]), in[2]), mul(sigmoid(part[0]), tanh(part[2])));
  expect_close(state.c, c, elementwise(DType::f64));
  expect_close(state.h, mul(sigmoid(part[3]), tanh(c)), elementwise(DType::f64));
  check_gradient(
      [](const auto& v) {
        const LstmState next = lstm_cell(v[0], {v[1], v[2]}, v[3], v[4], v[5], v[6]);
        return concat({next.h, next.c}, 0);
      },
      in);
  check_gradient(
      [](const auto& v) {
        return lstm_cell(v[0], {v[1], v[2]}, v[3], v[4], v[5], v[6]).h;
      },
      in);

  const std::vector<Tensor> gru{in[0],
                                in[1],
                                random_normal({15, 3}, DType::f64, 4),
                                random_normal({15, 5}, DType::f64, 5),
                                random_normal({15}, DType::f64, 6),
                                random_normal({15}, DType::f64, 7)};
  const auto from_x = split(linear(gru[0], gru[2], gru[4]), {5, 5, 5}, 1);
  const auto from_h = split(linear(gru[1], gru[3], gru[5]), {5, 5, 5}, 1);
  const Tensor r = sigmoid(add(from_x[0], from_h[0]));
  const Tensor z = sigmoid(add(from_x[1], from_h[1]));
  const Tensor n = tanh(add(from_x[2], mul(r, from_h[2])));
  const Tensor expected =
      add(mul(sub(Tensor::full({2, 5}, 1.0, DType::f64), z), n), mul(z, gru[1]));
  expect_close(gru_cell(gru[0], gru[1], gru[2], gru[3], gru[4], gru[5]), expected,
               elementwise(DType::f64));
  check_gradient([](const auto& v) { return gru_cell(v[0], v[1], v[2], v[3], v[4], v[5]); }, gru);
}

TEST(Structure, BadInput) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_ERROR(concat({}, 0), "concat: needs at least one tensor");
  EXPECT_ERROR(concat({x, Tensor()}, 0), "concat: input is undefined");
  EXPECT_ERROR(concat({x, Tensor::zeros({2, 2})}, 0),
               "concat: shapes [2, 3] and [2, 2] differ beyond axis 0");
  EXPECT_ERROR(concat({x, Tensor::zeros({2})}, 0),
               "concat: shapes [2, 3] and [2] differ beyond axis 0");
  EXPECT_ERROR(concat({x, Tensor::zeros({2, 3}, DType::f64)}, 0),
               "concat: [2, 3] of f32 meets [2, 3] of f64; cast() one of them");
  EXPECT_ERROR(split(x, {1, 1}, 1), "split: sizes [1, 1] do not add up to axis 1 of shape [2, 3]");
  EXPECT_ERROR(split(x, {4, -1}, 1),
               "split: sizes [4, -1] do not add up to axis 1 of shape [2, 3]");
  EXPECT_ERROR(split(x, {INT64_MAX, INT64_MAX}, 1), "split: sizes [9223372036854775807");
  EXPECT_ERROR(chunks(x, 0, 1), "chunks: pieces of 0; a positive size is wanted");
  EXPECT_ERROR(chunks(Tensor(), 1, 0), "chunks: input is undefined");
  EXPECT_ERROR(stack({x, Tensor::zeros({3, 2})}, 0), "stack: shapes [2, 3] and [3, 2] differ");
  EXPECT_ERROR(stack({x}, 3), "stack: axis 3 out of range for shape [2, 3]");
  EXPECT_ERROR(gather(x, 1, ids({3}, {1, 1})), "gather: index 3 out of range for 3 rows");
  EXPECT_ERROR(gather(x, 1, ids({-1}, {1, 1})), "gather: index -1 out of range for 3 rows");
  EXPECT_ERROR(gather(x, 1, ids({0, 0, 0}, {3, 1})),
               "gather: index [3, 1] is larger than input [2, 3]");
  EXPECT_ERROR(gather(x, 1, ids({0}, {1})),
               "gather: index [1] must have as many axes as input [2, 3]");
  EXPECT_ERROR(index_rows(x, ids({2}, {1})), "index_rows: index 2 out of range for 2 rows");
  EXPECT_ERROR(index_rows(Tensor::scalar(1), ids({0}, {1})), "index_rows: a scalar has no rows");
  EXPECT_ERROR(embedding(x, ids({-1}, {1})), "embedding: index -1 out of range for 2 rows");
  EXPECT_ERROR(embedding(x, Tensor::zeros({1})), "embedding: indices of f32; i64 or i32 is wanted");
  EXPECT_ERROR(embedding(Tensor::zeros({3}), ids({0}, {1})),
               "embedding: weight [3]; [rows, width] is wanted");
  EXPECT_ERROR(where(x, x, x), "where: condition of f32; bool or u8 is wanted");
  EXPECT_ERROR(masked_fill(x, Tensor::zeros({4, 2, 3}, DType::u8), 0),
               "masked_fill: mask [4, 2, 3] does not broadcast to [2, 3]");
  EXPECT_ERROR(lstm_cell(x, {x, x}, x, x, Tensor(), Tensor()),
               "lstm_cell: weights [2, 3] and [2, 3] for input [2, 3] and state [2, 3]");
  EXPECT_ERROR(gru_cell(x, Tensor::zeros({3, 3}), x, x, Tensor(), Tensor()),
               "gru_cell: input [2, 3] and state [3, 3]; [batch, width] is wanted");
}

}  // namespace
}  // namespace heed::test
