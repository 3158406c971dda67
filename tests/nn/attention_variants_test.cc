#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "heed/io.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/transformer.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

using test::expect_close;
using test::random_normal;

constexpr test::Tolerance kClose{1.3e-6, 1e-5};

/// A golden file whose floating inputs are leaves, in f64.
struct Golden {
  TensorMap tensors;
  Metadata metadata;
  TensorMap leaves;

  explicit Golden(const std::string& name)
      : tensors(load_safetensors(test::golden(name + ".safetensors"))),
        metadata(safetensors_metadata(test::golden(name + ".safetensors"))) {}

  Tensor leaf(const std::string& name) {
    return leaves[name] = tensors.at(name).to(DType::f64).clone().set_requires_grad(true);
  }
  int64_t number(const std::string& name) const { return std::stoll(metadata.at(name)); }
  void compare(const Tensor& output, test::Tolerance tolerance = kClose) {
    expect_close(output, tensors.at("output"), tolerance, "output");
    if (!tensors.contains("grad_output")) {
      return;
    }
    backward(output, tensors.at("grad_output").to(DType::f64));
    for (const auto& [name, value] : leaves) {
      expect_close(value.grad(), tensors.at("grad_" + name), tolerance, "grad_" + name);
    }
  }
};

TEST(AttentionVariants, AdditiveAndLuongAreTheReferences) {
  for (const std::string heads : {"h1", "h2"}) {
    for (const std::string kind : {"additive", "luong_dot", "luong_general", "luong_concat"}) {
      Golden golden("attention_variants/" + kind + "_" + heads);
      const Tensor q = golden.leaf("q");
      const Tensor k = golden.leaf("k");
      const Tensor v = golden.leaf("v");
      AttentionOptions options;
      options.key_padding = golden.tensors.at("key_padding");
      struct Keep : Observer {
        AttentionRecord record;
        void attention(const std::string&, const AttentionRecord& seen) override { record = seen; }
      } keep;
      Tensor output;
      if (kind == "additive") {
        output = additive_attention(q, k, v, golden.leaf("w_query"), golden.leaf("w_key"),
                                    golden.leaf("v_score"), options);
      } else if (kind == "luong_dot") {
        output = luong_dot_attention(q, k, v, options);
      } else if (kind == "luong_general") {
        output = luong_general_attention(q, k, v, golden.leaf("w_general"), options);
      } else {
        output = luong_concat_attention(q, k, v, golden.leaf("w_concat"), golden.leaf("v_score"),
                                        options);
      }
      expect_close(keep.record.all_weights(), golden.tensors.at("weights"), {0, 1e-6}, kind);
      expect_close(keep.record.lse(), golden.tensors.at("lse"), kClose, kind);
      golden.compare(output);
    }
  }
}

/// Scale, soft-cap and bias mean the same for scores of any making: here those of a plain product.
TEST(AttentionVariants, ScoresOfAnyMakingFollowEveryOption) {
  const Tensor q = random_normal({2, 3, 4, 5}, DType::f64, 1);
  const Tensor k = random_normal({2, 3, 6, 5}, DType::f64, 2);
  const Tensor v = random_normal({2, 3, 6, 7}, DType::f64, 3);
  AttentionOptions options;
  options.scale = 0.3;
  options.softcap = 1.5;
  options.bias = random_normal({3, 1, 6}, DType::f64, 4);
  options.position = Causal{2};
  const Tensor wanted = attention(q, k, v, options);
  expect_close(attend_scores(matmul(q, transpose(k, 2, 3)), v, options), wanted, {1e-12, 1e-12});
}

/// What stands at padding may be no number; the weights that all keys share must not learn of it.
TEST(AttentionVariants, PaddingReachesNoSharedWeight) {
  Tensor key_padding = Tensor::full({1, 4}, 1, DType::u8);
  key_padding.data<uint8_t>()[3] = 0;
  AttentionOptions options;
  options.key_padding = key_padding;
  const Tensor q = random_normal({1, 2, 3, 5}, DType::f32, 1);
  const Tensor v = random_normal({1, 2, 4, 5}, DType::f32, 3);
  for (const bool general : {true, false}) {
    Tensor gradients[2];
    for (const bool nan : {false, true}) {
      Tensor k = random_normal({1, 2, 4, 5}, DType::f32, 2);
      for (int64_t head = 0; nan && head < 2; ++head) {
        std::fill_n(k.data<float>() + head * 20 + 15, 5, std::nanf(""));
      }
      Tensor weight = random_normal({5, 5}, DType::f32, 4).set_requires_grad(true);
      const Tensor out =
          general ? luong_general_attention(q, k, v, weight, options)
                  : additive_attention(q, k, v, random_normal({5, 5}, DType::f32, 5), weight,
                                       random_normal({5}, DType::f32, 6), options);
      backward(sum(out * out));
      gradients[nan ? 1 : 0] = weight.grad();
    }
    expect_close(gradients[1], gradients[0], {1e-6, 1e-6});
  }
}

TEST(AttentionVariants, ShawIsTheReference) {
  for (const std::string name : {"none", "top_left"}) {
    Golden golden("positions/shaw_" + name);
    AttentionOptions options;
    if (name == "top_left") {
      options.position = Causal{};
    }
    golden.compare(shaw_attention(golden.leaf("q"), golden.leaf("k"), golden.leaf("v"),
                                  golden.leaf("relative_key"), golden.leaf("relative_value"),
                                  options));
  }
}

/// What a call of shaw_attention gives, forward and backward.
std::vector<Tensor> shaw_results(int64_t length, int64_t chunk, bool by_value, bool causal) {
  AttentionOptions options;
  options.chunk = chunk;
  if (causal) {
    options.position = Causal{};
  }
  std::vector<Tensor> leaves;
  for (const Shape& shape : {Shape{2, 3, length, 8}, Shape{2, 3, length, 8}, Shape{2, 3, length, 8},
                             Shape{9, 8}, Shape{9, 8}}) {
    leaves.push_back(random_normal(shape, DType::f32, leaves.size() + 1).set_requires_grad(true));
  }
  const Tensor output = shaw_attention(leaves[0], leaves[1], leaves[2], leaves[3],
                                       by_value ? leaves[4] : Tensor(), options);
  backward(output, random_normal(output.shape(), DType::f32, 9));
  std::vector<Tensor> results{output.detach()};
  for (const Tensor& leaf : leaves) {
    results.push_back(leaf.grad());
  }
  return results;
}

TEST(AttentionVariants, ShawInChunksIsShawAtOnce) {
  for (const bool by_value : {true, false}) {
    for (const bool causal : {true, false}) {
      const std::vector<Tensor> whole = shaw_results(150, 1000, by_value, causal);
      const std::vector<Tensor> chunked = shaw_results(150, 64, by_value, causal);
      test::expect_same_bits(chunked[0], whole[0], "output");
      test::expect_same_bits(chunked[1], whole[1], "grad_q");
      for (size_t i = 2; i < whole.size() - (by_value ? 0 : 1); ++i) {
        test::expect_norm_close(chunked[i], whole[i], 1e-6, "gradients that sum over queries");
      }
    }
  }
}

/// Twice the length takes about twice the memory, forward and backward, not four times.
TEST(AttentionVariants, ShawTakesMemoryLinearInTheLength) {
  const auto peak = [](int64_t length, bool by_value) {
    const int64_t before = memory_stats().in_use;
    reset_peak_memory();
    shaw_results(length, 64, by_value, true);
    return memory_stats().peak - before;
  };
  for (const bool by_value : {true, false}) {
    const int64_t half = peak(384, by_value);
    EXPECT_LT(peak(768, by_value), 5 * half / 2);
    EXPECT_LT(peak(768, by_value), int64_t{2} * 3 * 768 * 768 * 4) << "one matrix of scores";
  }
}

TEST(AttentionVariants, LongformerIsHuggingFaces) {
  Golden golden("attention_variants/longformer");
  LongformerInputs in;
  in.q = golden.leaf("q");
  in.k = golden.leaf("k");
  in.v = golden.leaf("v");
  in.q_global = golden.leaf("q_global");
  in.k_global = golden.leaf("k_global");
  in.v_global = golden.leaf("v_global");
  in.global_mask = golden.tensors.at("global_mask");
  in.key_padding = golden.tensors.at("key_padding");
  in.window = golden.number("attention_window");
  golden.compare(longformer_attention(in));
}

TEST(AttentionVariants, LongformerWithoutGlobalTokensIsAWindow) {
  LongformerInputs in;
  in.q = random_normal({1, 2, 200, 8}, DType::f32, 1);
  in.k = random_normal({1, 2, 200, 8}, DType::f32, 2);
  in.v = random_normal({1, 2, 200, 8}, DType::f32, 3);
  in.window = 10;
  AttentionOptions options;
  options.position = Window{5, 5, 0, 0};
  expect_close(longformer_attention(in), attention(in.q, in.k, in.v, options), kClose);
  in.window = 9;
  EXPECT_ERROR(longformer_attention(in),
               "longformer_attention: window 9 must be even and positive");
}

TEST(AttentionVariants, BigBirdIsHuggingFaces) {
  for (const std::string name : {"hf_eval", "random"}) {
    Golden golden("attention_variants/bigbird_" + name);
    BigBirdInputs in;
    in.q = golden.leaf("q");
    in.k = golden.leaf("k");
    in.v = golden.leaf("v");
    in.random_blocks = golden.tensors.at("random_blocks");
    in.key_padding = golden.tensors.at("key_padding");
    in.block_size = golden.number("block_size");
    golden.compare(bigbird_attention(in));
  }
}

TEST(AttentionVariants, BigBirdsRandomBlocksAreHonest) {
  const Tensor table = bigbird_random_blocks(3, 12, 2, {7, 0});
  const auto blocks = table.to_vector<int64_t>();
  for (int64_t row = 0; row < 30; ++row) {
    const int64_t a = blocks[static_cast<size_t>(2 * row)];
    const int64_t b = blocks[static_cast<size_t>(2 * row + 1)];
    EXPECT_NE(a, b);
    for (const int64_t block : {a, b}) {
      EXPECT_GT(block, 0);
      EXPECT_LT(block, 11);
      EXPECT_GT(std::abs(block - (row % 10 + 1)), 1) << "the window covers it already";
    }
  }
  EXPECT_NE(blocks, bigbird_random_blocks(3, 12, 2, {8, 0}).to_vector<int64_t>());
  for (const int64_t block : bigbird_random_blocks(3, 12, 2, {7, 0}, true).to_vector<int64_t>()) {
    EXPECT_EQ(block, 0);
  }
  EXPECT_ERROR(bigbird_random_blocks(3, 6, 2, {7, 0}),
               "bigbird_random_blocks: 6 blocks leave fewer than 2 beside the window and the ends");
}

TEST(AttentionVariants, PerformerIsTheReference) {
  for (const std::string name : {"full", "causal"}) {
    Golden golden("attention_variants/performer_" + name);
    ASSERT_TRUE(golden.tensors.contains("grad_output"));
    golden.compare(performer_attention(golden.leaf("q"), golden.leaf("k"), golden.leaf("v"),
                                       golden.tensors.at("projection").to(DType::f64),
                                       name == "causal"));
  }
}

TEST(AttentionVariants, PerformerApproachesSoftmaxAndLooksAtNoLaterKey) {
  const Tensor q = random_normal({1, 2, 40, 8}, DType::f32, 1) * 0.5;
  const Tensor k = random_normal({1, 2, 40, 8}, DType::f32, 2) * 0.5;
  const Tensor v = random_normal({1, 2, 40, 8}, DType::f32, 3);
  const Tensor projection = performer_projection(4096, 8, {5, 0});
  expect_close(performer_attention(q, k, v, projection, false), attention(q, k, v), {0, 0.1});
  AttentionOptions options;
  options.position = Causal{};
  expect_close(performer_attention(q, k, v, projection, true), attention(q, k, v, options),
               {0, 0.1});
  const Tensor small = performer_projection(20, 8, {5, 0});
  const Tensor whole = performer_attention(q, k, v, small, true);
  const auto first = [](const Tensor& x) { return slice(x, 2, 0, 21); };
  expect_close(first(whole), performer_attention(first(q), first(k), first(v), small, true),
               kClose);
}

TEST(AttentionVariants, PerformersProjectionIsOrthogonal) {
  const auto rows = performer_projection(12, 8, {3, 0}).to_doubles();
  const auto product = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t i = 0; i < 8; ++i) {
      sum += rows[a * 8 + i] * rows[b * 8 + i];
    }
    return sum;
  };
  for (size_t a = 0; a < 8; ++a) {
    for (size_t b = 0; b < a; ++b) {
      EXPECT_NEAR(product(a, b), 0, 1e-5);
    }
    EXPECT_GT(product(a, a), 0.1);
  }
}

TEST(AttentionVariants, FnetIsTheReference) {
  for (const std::string name : {"7_12", "8_16"}) {
    Golden golden("attention_variants/fnet_" + name);
    golden.compare(fnet_mixing(golden.leaf("hidden_states")), {1.3e-6, 1e-4});
  }
}

TEST(AttentionVariants, FourierOfAnyLength) {
  for (const int64_t length : {1, 2, 3, 5, 8, 13, 30, 97, 128, 210}) {
    const Tensor x = random_normal({1, length, 1}, DType::f64, 1);
    const auto values = x.to_doubles();
    std::vector<double> expected;
    for (int64_t k = 0; k < length; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < length; ++n) {
        sum += values[static_cast<size_t>(n)] *
               std::cos(2 * std::numbers::pi * static_cast<double>(k * n % length) /
                        static_cast<double>(length));
      }
      expected.push_back(sum);
    }
    expect_close(fnet_mixing(x), expected, {1e-9, 1e-9}, std::to_string(length));
  }
}

TEST(AttentionVariants, SwinIsHuggingFaces) {
  for (const std::string shift : {"0", "2"}) {
    Golden golden("attention_variants/swin_shift" + shift);
    SwinInputs in;
    in.q = golden.leaf("q");
    in.k = golden.leaf("k");
    in.v = golden.leaf("v");
    in.bias_table = golden.leaf("relative_position_bias_table");
    in.height = golden.number("height");
    in.width = golden.number("width");
    in.window = golden.number("window");
    in.shift = golden.number("shift");
    golden.compare(swin_attention(in));
  }
}

TEST(AttentionVariants, Gradients) {
  const auto random = [](const Shape& shape, uint64_t seed) {
    return random_normal(shape, DType::f64, seed);
  };
  const Tensor q = random({1, 2, 18, 4}, 1);
  const Tensor k = random({1, 2, 18, 4}, 2);
  const Tensor v = random({1, 2, 18, 3}, 3);
  const Tensor padding = Tensor::full({1, 18}, 1, DType::u8);
  padding.data<uint8_t>()[17] = 0;
  const Tensor projection = performer_projection(6, 4, {1, 0}).to(DType::f64);
  for (const bool causal : {false, true}) {
    test::check_gradient(
        [&](const std::vector<Tensor>& x) {
          return performer_attention(x[0], x[1], x[2], projection, causal, padding);
        },
        {q, k, v}, causal ? "causal performer" : "performer");
  }
  test::check_gradient(
      [&](const std::vector<Tensor>& x) {
        LongformerInputs in;
        in.q = x[0];
        in.k = x[1];
        in.v = x[2];
        in.q_global = x[3];
        in.k_global = x[4];
        in.v_global = x[5];
        in.global_mask = Tensor::zeros({1, 18}, DType::u8);
        in.global_mask.data<uint8_t>()[4] = 1;
        in.key_padding = padding;
        in.window = 4;
        return longformer_attention(in);
      },
      {q, k, v, random({1, 2, 18, 4}, 4), random({1, 2, 18, 4}, 5), random({1, 2, 18, 3}, 6)},
      "longformer");
  test::check_gradient(
      [&](const std::vector<Tensor>& x) {
        BigBirdInputs in;
        in.q = x[0];
        in.k = x[1];
        in.v = x[2];
        in.key_padding = padding;
        in.block_size = 2;
        in.random_blocks = bigbird_random_blocks(2, 9, 1, {1, 0});
        return bigbird_attention(in);
      },
      {q, k, v}, "bigbird");
  test::check_gradient(
      [&](const std::vector<Tensor>& x) {
        SwinInputs in;
        in.q = slice(x[0], 2, 0, 16);
        in.k = slice(x[1], 2, 0, 16);
        in.v = slice(x[2], 2, 0, 16);
        in.bias_table = x[3];
        in.height = in.width = 4;
        in.window = 2;
        in.shift = 1;
        return swin_attention(in);
      },
      {q, k, v, random({9, 2}, 7)}, "swin");
  test::check_gradient([](const std::vector<Tensor>& x) { return fnet_mixing(x[0]); },
                       {random({2, 5, 6}, 8)}, "fnet");
}

TEST(RelativePositions, T5BucketsAreTheReferences) {
  const TensorMap golden = load_safetensors(test::golden("positions/t5_buckets.safetensors"));
  const auto distances = golden.at("relative_position").to_vector<int64_t>();
  for (const auto& [buckets, furthest] : {std::pair<int64_t, int64_t>{32, 128}, {8, 20}}) {
    for (const bool both : {true, false}) {
      const auto expected = golden
                                .at((both ? "bidirectional_" : "causal_") +
                                    std::to_string(buckets) + "_" + std::to_string(furthest))
                                .to_vector<int64_t>();
      for (size_t i = 0; i < distances.size(); ++i) {
        EXPECT_EQ(t5_bucket(distances[i], both, buckets, furthest), expected[i]) << distances[i];
      }
    }
  }
}

TEST(RelativePositions, T5BiasHasAGradient) {
  test::check_gradient([](const std::vector<Tensor>& x) { return t5_bias(x[0], 5, 7, 2, true, 6); },
                       {random_normal({8, 3}, DType::f64, 1)});
}

TEST(RelativePositions, AlibiIsTheReference) {
  const TensorMap golden = load_safetensors(test::golden("positions/alibi.safetensors"));
  for (int64_t heads = 1; heads <= 16; ++heads) {
    expect_close(alibi_slopes(heads), golden.at("slopes_" + std::to_string(heads)), kClose);
  }
  expect_close(select(alibi_bias(6, 5, 7, 2), 0, 0), golden.at("bias_6"), kClose);
}

}  // namespace
}  // namespace heed
