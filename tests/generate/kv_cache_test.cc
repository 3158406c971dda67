// Caches of keys and values in every type.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "generate/prefill.h"
#include "generate/prefixes.h"
#include "heed/attention.h"
#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

/// Keys or values [heads, length, width] in a cache of that type, as the kernel reads them.
KvCache filled(const Tensor& k, const Tensor& v, DType type, int64_t window = 0) {
  KvCache cache(k.size(0), k.size(1), k.size(2), v.size(2), window, type);
  cache.append(k, v);
  return cache;
}

/// The same numbers, rounded to the type and widened again.
Tensor rounded(const Tensor& x, DType type) {
  return type == DType::q8_0 ? dequantize(quantize(x, type)) : x.to(type).to(DType::f32);
}

class KvType : public testing::TestWithParam<DType> {};

/// Few queries (decoding) and many (a prompt's chunk), grouped heads, windows, a prefix (attention
/// sinks), on every SIMD target: the bits of attention over the rounded keys in f32.
TEST_P(KvType, AttentionReadsWhatTheCacheHolds) {
  const Tensor k = random_normal({2, 200, 64}, DType::f32, 1);
  const Tensor v = random_normal({2, 200, 96}, DType::f32, 2);
  const KvCache cache = filled(k, v, GetParam());
  const Tensor wide_k = unsqueeze(rounded(k, GetParam()), 0);
  const Tensor wide_v = unsqueeze(rounded(v, GetParam()), 0);
  for (const int64_t queries : {1, 5, 100}) {
    const Tensor q = random_normal({1, 8, queries, 64}, DType::f32, 3);
    for (const PositionMask& position :
         {PositionMask(Causal{200 - queries}), PositionMask(Window{70, 0, 200 - queries}),
          PositionMask(Window{70, 0, 200 - queries, 4})}) {
      AttentionOptions options;
      options.position = position;
      for_each_target([&](const char* target) {
        expect_same_bits(attention(q, cache.keys(), cache.values(), options),
                         attention(q, wide_k, wide_v, options), target);
      });
    }
  }
}

TEST_P(KvType, APoisonedValueReachesOnlyThoseWhoSeeIt) {
  if (GetParam() == DType::q8_0) {
    GTEST_SKIP() << "q8_0 holds no NaN";
  }
  const Tensor k = random_normal({1, 80, 32}, DType::f32, 1);
  Tensor v = random_normal({1, 80, 32}, DType::f32, 2);
  v.data<float>()[70 * 32 + 3] = std::numeric_limits<float>::quiet_NaN();
  const KvCache cache = filled(k, v, GetParam());
  const Tensor q = random_normal({1, 1, 2, 32}, DType::f32, 3);
  AttentionOptions options;
  options.position = Window{-1, 0, 69};  // query 0 sees keys up to 69, query 1 up to 70
  const Tensor z = attention(q, cache.keys(), cache.values(), options);
  const float* out = z.data<float>();
  EXPECT_FALSE(std::isnan(out[3]));
  EXPECT_TRUE(std::isnan(out[z.strides()[2] + 3]));
}

TEST_P(KvType, StepByStepLogitsAreThoseOfTheFullPass) {
  const double error = GetParam() == DType::f32 ? 1e-5 : GetParam() == DType::f16 ? 2e-3 : 2e-2;
  const auto model = create_model(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 50,
          "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128})",
      7);
  model->set_kv_type(GetParam());
  EXPECT_EQ(model->kv_type(), GetParam());
  const Tensor ids = random_indices({90}, 50, 3);
  ModelInput input;
  input.input_ids = reshape(ids, {1, 90});
  const Tensor full = reshape(model->forward(input).logits, {90, 50});
  SequenceCache cache = model->new_cache(90);
  EXPECT_EQ(cache.self.front().dtype(), GetParam());
  const std::vector<int64_t> tokens = ids.to_vector<int64_t>();
  read_tokens(*model, tokens, 0, 80, {}, cache);
  SequenceCache copy = cache.copy();
  for (SequenceCache* each : {&cache, &copy}) {
    for (int64_t i = 80; i < 90; ++i) {
      const Tensor logits = continue_sequences(*model, {tokens[static_cast<size_t>(i)]}, {each});
      expect_norm_close(logits, slice(full, 0, i, i + 1).contiguous(), error);
    }
  }
}

/// A recorder sees keys and values in f32, whatever the cache holds, and its weights add up to the
/// output of the pass, whose bits it does not change.
TEST_P(KvType, RecordedWeightsAreThoseOfThePass) {
  const auto model = load_model(golden("models/llama_gqa"));
  const int64_t width = model->hidden_size() / model->num_heads();
  if (GetParam() == DType::q8_0 && width % 32 != 0) {
    EXPECT_EQ(message_of([&] { model->set_kv_type(GetParam()); }),
              fmt::format("cache: q8_0 needs heads of a multiple of 32 numbers; this model's have "
                          "{} and {}. f16 fits any",
                          width, width));
    EXPECT_EQ(model->kv_type(), DType::f32);
    return;
  }
  model->set_kv_type(GetParam());
  const std::vector<int64_t> tokens{1, 5, 3, 7, 2, 4};
  SequenceCache plain = model->new_cache(8);
  read_tokens(*model, tokens, 0, 6, {}, plain);
  SequenceCache watched = plain.copy();
  const Tensor expected = continue_sequences(*model, {6}, {&plain});
  Recorder recorder;
  expect_same_bits(continue_sequences(*model, {6}, {&watched}), expected, "recorded");
  ASSERT_FALSE(recorder.attentions().empty());
  for (const RecordedAttention& each : recorder.attentions()) {
    EXPECT_EQ(each.keys(), 7);
    EXPECT_EQ(each.record.k.dtype(), DType::f32);
    const Tensor weights = each.record.all_weights();
    expect_close(sum(weights, 3), Tensor::full({1, each.heads(), 1}, 1.0), {1e-5, 0});
    const int64_t shared = each.heads() / each.record.v.size(1);
    const Tensor& v = each.record.v;
    const Tensor all = reshape(expand(unsqueeze(v, 2), {1, v.size(1), shared, 7, v.size(3)}),
                               {1, each.heads(), 7, v.size(3)});
    expect_close(matmul(weights, all), each.record.output, {1e-5, 1e-5});
  }
}

TEST_P(KvType, BytesAreThoseOfTheType) {
  const KvCache cache(2, 1000, 64, 32, 100, GetParam());
  EXPECT_EQ(cache.bytes_for(50), bytes_of(GetParam(), 50 * 2 * (64 + 32)));
  EXPECT_EQ(cache.bytes_for(1000), bytes_of(GetParam(), (100 + 64 + 512) * 2 * (64 + 32)));
}

/// Beyond the window the first positions are given up; what is left has not changed.
TEST_P(KvType, AWindowKeepsTheLastPositions) {
  const Tensor k = random_normal({2, 900, 32}, DType::f32, 1);
  KvCache cache(2, 900, 32, 32, 100, GetParam());
  for (int64_t at = 0; at < 900; at += 30) {
    const Tensor part = slice(k, 1, at, at + 30).contiguous();
    cache.append(part, part);
  }
  EXPECT_GT(cache.first(), 0);
  const Tensor kept = slice(k, 1, cache.first(), 900).contiguous();
  const Tensor q = random_normal({1, 2, 1, 32}, DType::f32, 3);
  const Tensor wide = unsqueeze(rounded(kept, GetParam()), 0);
  expect_same_bits(attention(q, cache.keys(), cache.values()), attention(q, wide, wide));
}

/// What the server keeps of a sequence for those that begin like it.
TEST_P(KvType, APrefixIsCopiedAsItIs) {
  const Tensor k = random_normal({2, 100, 32}, DType::f32, 1);
  const Tensor v = random_normal({2, 100, 32}, DType::f32, 2);
  SequenceCache from, to;
  from.self.push_back(filled(k, v, GetParam()));
  to.self.emplace_back(2, 70, 32, 32, 0, GetParam());
  copy_prefix(from, 70, to);
  EXPECT_EQ(to.length, 70);
  const Tensor q = random_normal({1, 2, 1, 32}, DType::f32, 3);
  const auto wide = [&](const Tensor& x) {
    return unsqueeze(rounded(slice(x, 1, 0, 70).contiguous(), GetParam()), 0);
  };
  expect_same_bits(attention(q, to.self[0].keys(), to.self[0].values()),
                   attention(q, wide(k), wide(v)));
}

INSTANTIATE_TEST_SUITE_P(Types, KvType,
                         testing::Values(DType::f32, DType::f16, DType::bf16, DType::q8_0),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST(KvCache, OtherTypesAreRefused) {
  EXPECT_EQ(message_of([] { KvCache(1, 8, 32, 32, 0, DType::q4_0); }),
            "cache: keys and values are kept in f32, f16, bf16 or q8_0, not in q4_0");
  EXPECT_EQ(message_of([] { KvCache(1, 8, 40, 32, 0, DType::q8_0); }),
            "cache: q8_0 needs heads of a multiple of 32 numbers; this model's have 40 and 32. f16 "
            "fits any");
}

}  // namespace
}  // namespace heed::test
