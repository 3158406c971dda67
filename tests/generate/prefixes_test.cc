#include <gtest/gtest.h>

#include "heed/generate.h"
#include "support/data.h"

namespace heed::test {
namespace {

std::vector<SampledToken> run(Scheduler& scheduler, const std::vector<int64_t>& prompt,
                              int64_t max_tokens, uint64_t seed = 0) {
  std::vector<SampledToken> tokens;
  Request request;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  request.sampling.temperature = seed == 0 ? 0.0 : 1.0;
  request.sampling.seed = seed;
  request.top_log_probabilities = 3;
  request.on_token = [&](const SampledToken& token) {
    tokens.push_back(token);
    return true;
  };
  scheduler.add(std::move(request));
  scheduler.run();
  return tokens;
}

std::vector<int64_t> prompt_of(int64_t length, int64_t vocabulary) {
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < length; ++i) {
    prompt.push_back((i * i + 3 * i) % vocabulary);
  }
  return prompt;
}

void expect_same(const std::vector<SampledToken>& a, const std::vector<SampledToken>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].id, b[i].id);
    EXPECT_EQ(a[i].log_probability, b[i].log_probability);  // the same bits
    EXPECT_EQ(a[i].top, b[i].top);
  }
}

constexpr const char* kConfig =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 97,
        "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 2048})";

TEST(Prefixes, SharingChangesNoBit) {
  const auto model = create_model(kConfig, 5);
  Scheduler plain(*model), sharing(*model);
  sharing.share_prefixes(64 << 20);
  for (const int64_t length : {12, 40, 41, 129, 600, 1100, 1100, 700}) {
    for (const int64_t change : {0, 1, 7}) {
      std::vector<int64_t> prompt = prompt_of(length, 97);
      prompt[prompt.size() - 1 - static_cast<size_t>(change)] = 11;
      expect_same(run(plain, prompt, 6, static_cast<uint64_t>(change)),
                  run(sharing, prompt, 6, static_cast<uint64_t>(change)));
    }
  }
  EXPECT_EQ(plain.shared_tokens(), 0);
  EXPECT_GT(sharing.shared_tokens(), 3000);
}

TEST(Prefixes, SamplesOfOnePromptReadItOnce) {
  const auto model = create_model(kConfig, 5);
  Scheduler scheduler(*model);
  scheduler.share_prefixes(64 << 20);
  const std::vector<int64_t> prompt = prompt_of(300, 97);
  int finished = 0;
  for (uint64_t stream = 0; stream < 4; ++stream) {
    Request request;
    request.prompt = prompt;
    request.stream = stream;
    request.max_tokens = 5;
    scheduler.add(std::move(request), [&](FinishReason) { ++finished; });
  }
  scheduler.run();
  EXPECT_EQ(finished, 4);
  EXPECT_EQ(scheduler.shared_tokens(), 3 * 299);
}

TEST(Prefixes, WhatIsKeptIsBounded) {
  const auto model = create_model(kConfig, 5);
  Scheduler scheduler(*model);
  scheduler.share_prefixes(1 << 10);  // less than one sequence
  run(scheduler, prompt_of(100, 97), 2);
  run(scheduler, prompt_of(100, 97), 2);
  EXPECT_EQ(scheduler.shared_tokens(), 0);
}

TEST(Prefixes, SlidingWindowsAreLeftAlone) {
  const auto model = load_model(golden("models/mistral_window"));
  Scheduler plain(*model), sharing(*model);
  sharing.share_prefixes(64 << 20);
  const std::vector<int64_t> prompt = prompt_of(10, model->vocab_size());
  for (int i = 0; i < 2; ++i) {
    expect_same(run(plain, prompt, 3), run(sharing, prompt, 3));
  }
}

TEST(Scheduler, LongPromptsDoNotStopOthers) {
  const auto model = create_model(kConfig, 5);
  Scheduler scheduler(*model);
  int64_t first = 0, second = 0, first_when_second_began = -1;
  Request talker;
  talker.prompt = prompt_of(4, 97);
  talker.max_tokens = 20;
  talker.on_token = [&](const SampledToken&) { return ++first > 0; };
  scheduler.add(std::move(talker));
  scheduler.step();
  Request reader;
  reader.prompt = prompt_of(2000, 97);
  reader.max_tokens = 1;
  reader.on_token = [&](const SampledToken&) {
    first_when_second_began = first;
    return ++second > 0;
  };
  scheduler.add(std::move(reader));
  scheduler.run();
  EXPECT_EQ(first, 20);
  EXPECT_EQ(second, 1);
  EXPECT_GE(first_when_second_began, 4);  // it went on while the prompt was read
}

/// Tokens of prompts that come at the same time, and how many had been read at the first token.
struct Together {
  std::vector<std::vector<SampledToken>> tokens;
  int read_at_first_token = -1;
};

Together run_together(Scheduler& scheduler, const std::vector<std::vector<int64_t>>& prompts) {
  Together result;
  result.tokens.resize(prompts.size());
  int read = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request;
    request.prompt = prompts[i];
    request.max_tokens = 6;
    request.sampling.temperature = i == 0 ? 0.0 : 1.0;
    request.sampling.seed = i;
    request.top_log_probabilities = 3;
    request.on_prompt = [&](int64_t done, int64_t, int64_t all) { read += done == all ? 1 : 0; };
    request.on_token = [&, i](const SampledToken& token) {
      int& at = result.read_at_first_token;
      at = at < 0 ? read : at;
      result.tokens[i].push_back(token);
      return true;
    };
    scheduler.add(std::move(request));
  }
  scheduler.run();
  return result;
}

std::vector<std::vector<int64_t>> prompts_of(const std::vector<int64_t>& lengths) {
  std::vector<std::vector<int64_t>> prompts;
  for (const int64_t length : lengths) {
    prompts.push_back(prompt_of(length, 97));
    prompts.back()[0] = static_cast<int64_t>(prompts.size());  // none begins like another
  }
  return prompts;
}

/// Prompts of these lengths get the same bits together as alone.
void expect_same_together(const std::string& config, const std::vector<int64_t>& lengths,
                          int read_at_first_token) {
  const auto model = create_model(config, 5);
  const auto prompts = prompts_of(lengths);
  for (const bool shares : {false, true}) {
    Scheduler scheduler(*model);
    scheduler.share_prefixes(shares ? 64 << 20 : 0);
    const Together together = run_together(scheduler, prompts);
    EXPECT_EQ(together.read_at_first_token, read_at_first_token) << config;
    for (size_t i = 0; i < prompts.size(); ++i) {
      Scheduler alone(*model);
      expect_same(together.tokens[i], run(alone, prompts[i], 6, i));
    }
  }
}

TEST(Scheduler, ShortPromptsAreReadTogetherAndKeepTheirBits) {
  expect_same_together(kConfig, {5, 18, 31, 44, 57, 70, 83, 96}, 8);  // 404 tokens: one chunk
}

TEST(Scheduler, PromptsThatEndInTheMiddleOfAChunkKeepTheirBits) {
  const std::vector<int64_t> lengths = {5, 700, 31, 600, 44, 1100, 57, 513};
  expect_same_together(kConfig, lengths, 1);
  const auto with = [](const std::string& name, const std::string& members) {
    std::string config = kConfig;
    config.replace(config.find("llama"), 5, name);
    return config.replace(config.rfind('}'), 1, members + "}");
  };
  expect_same_together(with("mistral", R"(, "sliding_window": 40)"), lengths, 1);
  // Positions that depend on the length: every prompt is read alone, in its own chunks.
  const std::string dynamic = R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0})";
  expect_same_together(with("llama", dynamic), lengths, 1);
}

TEST(Scheduler, ACancelledPromptIsNotReadToItsEnd) {
  const auto model = create_model(kConfig, 5);
  Scheduler scheduler(*model);
  int asked = 0;
  FinishReason reason = FinishReason::length;
  Request request;
  request.prompt = prompt_of(2000, 97);
  request.cancelled = [&] { return ++asked == 2; };
  scheduler.add(std::move(request), [&](FinishReason why) { reason = why; });
  scheduler.run();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(reason, FinishReason::stopped);
}

TEST(Scheduler, LogitsCanBeAdjusted) {
  const auto model = create_model(kConfig, 5);
  Scheduler scheduler(*model);
  std::vector<int64_t> chosen;
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  request.adjust_logits = [](std::span<float> logits, const std::vector<int64_t>& tokens) {
    EXPECT_EQ(logits.size(), 97);
    logits[tokens.size()] += 1000.0F;
  };
  request.on_token = [&](const SampledToken& token) {
    chosen.push_back(token.id);
    return true;
  };
  scheduler.add(std::move(request));
  scheduler.run();
  EXPECT_EQ(chosen, (std::vector<int64_t>{3, 4, 5, 6}));
}

}  // namespace
}  // namespace heed::test
