// Attention sinks: caches that keep the first positions and the last ones.
#include <gtest/gtest.h>

#include "generate/prefill.h"
#include "heed/generate.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"

namespace heed::test {
namespace {

constexpr int64_t kSinks = 3;
constexpr int64_t kRecent = 20;

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string config_of(const std::string& family, int64_t layers) {
  const std::string sizes = R"(, "vocab_size": 50, "num_hidden_layers": )" + std::to_string(layers);
  if (family == "bloom") {
    return R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "hidden_size": 64,
               "n_head": 2, "seq_length": 64)" +
           sizes + R"(, "n_layer": )" + std::to_string(layers) + "}";
  }
  if (family == "gptj") {
    return R"({"model_type": "gptj", "architectures": ["GPTJForCausalLM"], "n_embd": 64,
               "n_head": 2, "n_positions": 64, "rotary_dim": 16, "vocab_size": 50, "n_layer": )" +
           std::to_string(layers) + "}";
  }
  return R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
             "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1,
             "max_position_embeddings": 64)" +
         sizes + "}";
}

std::unique_ptr<Model> sliding_model(const std::string& family, int64_t layers,
                                     DType type = DType::f32) {
  auto model = create_model(config_of(family, layers), 7);
  model->set_kv_type(type);
  model->set_kv_window({.recent = kRecent, .sinks = kSinks});
  return model;
}

/// Logits [1, vocabulary] after the tokens as a text of their own.
Tensor logits_of(const Model& model, const std::vector<int64_t>& tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  ModelInput input;
  input.input_ids = Tensor::from(tokens, {1, count});
  const Tensor all = model.forward(input).logits;
  return reshape(slice(all, 1, count - 1, count), {1, all.size(2)}).contiguous();
}

class Sinks : public testing::TestWithParam<std::tuple<std::string, DType>> {};

/// In one layer a position's key and value depend on its token alone, so the logits past the window
/// are those of a text of the first tokens and the last ones: attention counts positions in the
/// cache. The tokens come one at a time and in chunks, far beyond the context of 64.
TEST_P(Sinks, TheFirstPositionsStandBeforeTheLastOnes) {
  const auto& [family, type] = GetParam();
  const auto model = sliding_model(family, 1, type);
  const std::vector<int64_t> tokens = random_indices({700}, 50, 3).to_vector<int64_t>();
  const double error = type == DType::f32 ? 2e-5 : type == DType::f16 ? 2e-3 : 2e-2;
  SequenceCache cache = model->new_cache(10);
  int64_t at = 0;
  for (const int64_t count : {5, 5, 5, 5, 1, 1, 1, 1, 1, 5, 20, 1, 5, 5}) {
    const auto begin = at;
    at += count;
    const Tensor rows = read_tokens(*model, tokens, begin, at, {}, cache);
    std::vector<int64_t> seen(tokens.begin(), tokens.begin() + at);
    if (at > kSinks + kRecent) {
      seen.erase(seen.begin() + kSinks, seen.end() - kRecent);
    }
    EXPECT_LE(cache.self[0].keys().size(2), kSinks + kRecent);
    expect_norm_close(model->logits(slice(rows, 0, count - 1, count)), logits_of(*model, seen),
                      error);
  }
  for (; at < 700; ++at) {
    read_tokens(*model, tokens, at, at + 1, {}, cache);
  }
  SequenceCache copy = cache.copy();
  std::vector<int64_t> seen(tokens.begin(), tokens.begin() + kSinks);
  seen.insert(seen.end(), tokens.end() - kRecent + 1, tokens.end());
  seen.push_back(9);
  for (SequenceCache* each : {&cache, &copy}) {
    expect_norm_close(continue_sequences(*model, {9}, {each}), logits_of(*model, seen), error);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Sinks,
                         testing::Combine(testing::Values("llama", "gptj", "bloom"),
                                          testing::Values(DType::f32, DType::f16, DType::bf16,
                                                          DType::q8_0)),
                         [](const auto& each) {
                           return std::get<0>(each.param) + "_" +
                                  std::string(name_of(std::get<1>(each.param)));
                         });

std::vector<int64_t> generated(Scheduler& scheduler, const std::vector<int64_t>& prompt,
                               int64_t count, uint64_t seed) {
  std::vector<int64_t> ids;
  Request request;
  request.prompt = prompt;
  request.max_tokens = count;
  request.sampling.temperature = 1.0;
  request.sampling.seed = seed;
  request.on_token = [&](const SampledToken& token) {
    ids.push_back(token.id);
    return true;
  };
  scheduler.add(std::move(request));
  scheduler.run();
  return ids;
}

TEST(SinksGeneration, UpToTheWindowNothingChanges) {
  const auto sliding = sliding_model("llama", 2);
  const auto plain = create_model(config_of("llama", 2), 7);
  Scheduler a(*sliding), b(*plain);
  EXPECT_EQ(generated(a, {1, 2, 3, 4, 5}, kSinks + kRecent - 5, 4),
            generated(b, {1, 2, 3, 4, 5}, kSinks + kRecent - 5, 4));
}

/// Longer than the context, from a prompt that is itself longer, and beside other sequences.
TEST(SinksGeneration, TextsMayBecomeLongerThanTheContext) {
  const auto model = sliding_model("llama", 2);
  const std::vector<int64_t> prompt = random_indices({150}, 50, 3).to_vector<int64_t>();
  Scheduler scheduler(*model);
  const std::vector<int64_t> alone = generated(scheduler, prompt, 200, 4);
  EXPECT_EQ(alone.size(), 200U);
  Scheduler busy(*model);
  for (int64_t i = 0; i < 3; ++i) {
    Request other;
    other.prompt.assign(prompt.begin() + i, prompt.begin() + 40 + 7 * i);
    other.max_tokens = 100;
    busy.add(std::move(other));
  }
  EXPECT_EQ(generated(busy, prompt, 200, 4), alone);
}

/// A conversation goes on where its cache slid; a prompt that only begins like it is read again.
TEST(SinksGeneration, APromptThatContinuesASlidCacheIsNotReadAgain) {
  const auto model = sliding_model("llama", 2);
  Scheduler scheduler(*model);
  scheduler.share_prefixes(1 << 20);
  std::vector<int64_t> prompt = random_indices({60}, 50, 3).to_vector<int64_t>();
  const std::vector<int64_t> answer = generated(scheduler, prompt, 30, 4);
  const std::vector<int64_t> first = prompt;
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  prompt.insert(prompt.end(), {1, 2, 3});
  EXPECT_EQ(generated(scheduler, prompt, 10, 5).size(), 10U);
  EXPECT_EQ(scheduler.shared_tokens(), 89);
  EXPECT_EQ(generated(scheduler, first, 30, 4), answer);
  EXPECT_EQ(scheduler.shared_tokens(), 89);
}

TEST(SinksGeneration, WhatCannotSlideSaysSo) {
  const auto gpt2 = create_model(
      R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 40,
          "vocab_size": 20})",
      3);
  EXPECT_EQ(message_of([&] { gpt2->set_kv_window({.recent = 8}); }),
            "gpt2: the cache cannot slide: positions are learned, given by an encoder or scaled by "
            "the length of the text");
  const auto llama = create_model(config_of("llama", 1), 7);
  EXPECT_EQ(message_of([&] { llama->set_kv_window({.recent = 62, .sinks = 4}); }),
            "cache: 4 attention sinks and a window of 62 positions do not fit into the model's "
            "context of 64");
}

}  // namespace
}  // namespace heed::test
