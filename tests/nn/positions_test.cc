#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "heed/attention.h"
#include "heed/io.h"
#include "heed/nn.h"
#include "heed/ops.h"
#include "heed/transformer.h"
#include "ops/relative.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

TEST(Positions, SinusoidsAreTheReferences) {
  for (const auto& [name, expected] : load_safetensors(golden("positions/sinusoids.safetensors"))) {
    const SinusoidLayout layout = name.starts_with("interleaved") ? SinusoidLayout::interleaved
                                                                  : SinusoidLayout::concatenated;
    expect_close(sinusoidal_positions(expected.size(0), expected.size(1), layout), expected,
                 elementwise(DType::f32), name);
  }
}

TEST(Positions, RelativeBucketsAreTheReferences) {
  const TensorMap tables = load_safetensors(golden("positions/t5_buckets.safetensors"));
  const std::vector<int64_t> relative = tables.at("relative_position").to_vector<int64_t>();
  for (const auto& [name, table] : tables) {
    if (name == "relative_position") {
      continue;
    }
    const bool large = name.ends_with("32_128");
    const std::vector<int64_t> expected = table.to_vector<int64_t>();
    for (size_t i = 0; i < relative.size(); ++i) {
      EXPECT_EQ(t5_bucket(relative[i], name.starts_with("bidirectional"), large ? 32 : 8,
                          large ? 128 : 20),
                expected[i])
          << name << " at " << relative[i];
    }
  }
}

/// A query's bias does not depend on the pass it comes in.
TEST(Positions, RelativeBiasOfLaterQueriesIsTheRestOfTheSquare) {
  const Tensor table = random_normal({8, 3});
  for (const bool bidirectional : {true, false}) {
    const Tensor all = t5_bias(table, 7, 7, 0, bidirectional, 20);
    const Tensor last = t5_bias(table, 2, 7, 5, bidirectional, 20);
    expect_same_bits(last, slice(all, 2, 5, 7).contiguous());
  }
}

TEST(Positions, BiasByDistanceIsAViewWithTheSumsOfItsDiagonalsAsGradient) {
  const Tensor table = random_normal({2, 8});
  const Tensor bias = by_distance(table, 5, 4);
  ASSERT_EQ(bias.shape(), Shape({1, 2, 5, 4}));
  EXPECT_EQ(bias.data<float>(), table.data<float>() + 4) << "nothing is copied";
  const std::vector<float> from = table.to_vector<float>(), all = bias.to_vector<float>();
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        EXPECT_EQ(all[static_cast<size_t>((h * 5 + i) * 4 + j)],
                  from[static_cast<size_t>(h * 8 + j - i + 4)]);
      }
    }
  }
  const auto biased = [](const std::vector<Tensor>& x) { return by_distance(x[0], 5, 4) * x[1]; };
  check_gradient(biased,
                 {random_normal({2, 8}, DType::f64), random_normal({1, 2, 5, 4}, DType::f64)});
  const auto t5 = [](const std::vector<Tensor>& x) { return t5_bias(x[0], 9, 7, 3, true, 20); };
  check_gradient(t5, {random_normal({8, 2}, DType::f64)});
  EXPECT_THROW(by_distance(table, 5, 5), Error);
}

/// What holds a number for every pair of 65,536 queries and keys would take 64 GB.
TEST(Positions, BiasOfALongSequenceTakesNoMemoryForItsPairs) {
  constexpr int64_t kLong = 1 << 16;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor bias = t5_bias(random_normal({8, 4}, type), kLong, kLong, 0, true, 20);
    EXPECT_EQ(bias.dtype(), DType::f32);
    EXPECT_EQ(bias.strides()[2], -1);
    EXPECT_EQ(bias.strides()[3], 1);
  }
  const Tensor alibi = alibi_bias(4, kLong, kLong, 0);
  EXPECT_EQ(alibi.strides()[2], -1);
  const float last =
      alibi.data<float>()[(kLong - 1) * alibi.strides()[2]];  // the last query's first key
  EXPECT_EQ(last, -alibi_slopes(4).data<float>()[0] * static_cast<float>(kLong - 1));
}

/// What the long path gives a query is what the short one does, to the last bit.
TEST(Positions, DisentangledPatternIsTheBias) {
  constexpr int64_t kBatch = 2, kHeads = 3, kLength = 21, kRows = 9, kWidth = 4;
  const Tensor q = random_normal({kBatch, kHeads, kLength, kWidth}, DType::f32, 2);
  const Tensor k = random_normal({kBatch, kHeads, kLength, kWidth}, DType::f32, 3);
  const Tensor v = random_normal({kBatch, kHeads, kLength, kWidth}, DType::f32, 4);
  const DisentangledPositions both{random_normal({kRows, kHeads, kWidth}, DType::f32, 5),
                                   random_normal({kRows, kHeads, kWidth}, DType::f32, 6),
                                   random_indices({2 * kLength - 1}, kRows, 7),
                                   random_indices({2 * kLength - 1}, kRows, 8)};
  const DisentangledPositions keys{both.key, {}, both.key_rows, {}};
  const DisentangledPositions queries{{}, both.query, {}, both.query_rows};
  for (const DisentangledPositions& positions : {both, keys, queries}) {
    const Tensor bias = disentangled_bias(q, k, positions, 0.3);
    const auto pattern = disentangled_pattern(q, k, positions, 0.3);
    const std::vector<int64_t> rows{20, 0, 7};
    for (const int64_t head : {0, 2, 1}) {
      const Tensor part = pattern->part(1, head, rows, 3, 19);
      for (size_t i = 0; i < rows.size(); ++i) {
        const Tensor expected =
            slice(select(select(select(bias, 0, 1), 0, head), 0, rows[i]), 0, 3, 19);
        expect_same_bits(select(part, 0, static_cast<int64_t>(i)).contiguous(),
                         expected.contiguous());
      }
    }
    AttentionOptions with_bias, with_pattern;
    with_bias.bias = bias;
    with_pattern.pattern = pattern;
    expect_same_bits(attention(q, k, v, with_pattern), attention(q, k, v, with_bias));
  }
  EXPECT_THROW(disentangled_pattern(q, k, {}, 0.3), Error);
  EXPECT_THROW(disentangled_bias(q, k, {both.key, {}, both.query, {}}, 0.3), Error);
}

/// Hides the odd distances from every third key on and adds its head's number to the others.
class ByHead final : public ScorePattern {
 public:
  Tensor part(int64_t batch, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    Tensor out = Tensor::empty({static_cast<int64_t>(rows.size()), key_end - key_begin});
    float* at = out.data<float>();
    for (const int64_t row : rows) {
      for (int64_t key = key_begin; key < key_end; ++key) {
        const bool hidden = key >= 3 && (key - row) % 2 != 0;
        *at++ = hidden ? -INFINITY : static_cast<float>(head - batch);
      }
    }
    return out;
  }
};

TEST(Positions, PatternOfHeadsThatShareKeysIsItsMaskAndBias) {
  constexpr int64_t kBatch = 2, kHeads = 4, kLength = 9;
  const Tensor q = random_normal({kBatch, kHeads, kLength, 4}, DType::f32, 2);
  const Tensor k = random_normal({kBatch, 2, kLength, 4}, DType::f32, 3);
  const Tensor v = random_normal({kBatch, 2, kLength, 4}, DType::f32, 4);
  AttentionOptions by_pattern, dense;
  by_pattern.pattern = std::make_shared<ByHead>();
  dense.mask = Tensor::zeros({kBatch, kHeads, kLength, kLength}, DType::u8);
  dense.bias = Tensor::zeros({kBatch, kHeads, kLength, kLength});
  std::vector<int64_t> rows(kLength);
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t at = 0; at < kBatch * kHeads; ++at) {
    const Tensor part = by_pattern.pattern->part(at / kHeads, at % kHeads, rows, 0, kLength);
    for (int64_t i = 0; i < kLength * kLength; ++i) {
      const float value = part.data<float>()[i];
      dense.mask.data<uint8_t>()[at * kLength * kLength + i] = value == -INFINITY ? 0 : 1;
      dense.bias.data<float>()[at * kLength * kLength + i] = value == -INFINITY ? 0.0F : value;
    }
  }
  expect_same_bits(attention(q, k, v, by_pattern), attention(q, k, v, dense));
}

TEST(Embedding, PaddingTakesNoGradient) {
  const Scope scope = Scope::fresh(1);
  const Embedding embedding(scope, 4, 3, Init::normal(1.0), 2);
  const Tensor ids = Tensor::from<int64_t>({0, 2, 2, 3}, {4});
  backward(sum(embedding(ids)));
  const Tensor gradient = embedding.weight().grad();
  expect_close(gradient, {1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1}, elementwise(DType::f32));
}

}  // namespace
}  // namespace heed::test
