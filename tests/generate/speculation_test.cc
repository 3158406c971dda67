#include "generate/speculation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "heed/generate.h"
#include "heed/runtime.h"
#include "support/data.h"

namespace heed::test {
namespace {

struct Generated {
  std::vector<SampledToken> tokens;
  FinishReason finish = FinishReason::stopped;
};

Request request_of(const std::vector<int64_t>& prompt, int64_t max_tokens, double temperature,
                   Generated& to) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  request.sampling.temperature = temperature;
  request.sampling.seed = 3;
  request.on_token = [&to](const SampledToken& token) {
    to.tokens.push_back(token);
    return true;
  };
  return request;
}

Generated run(Scheduler& scheduler, Request request, Generated& to) {
  scheduler.add(std::move(request), [&to](FinishReason reason) { to.finish = reason; });
  scheduler.run();
  return to;
}

Generated run(Scheduler& scheduler, const std::vector<int64_t>& prompt, int64_t max_tokens,
              double temperature = 0.0) {
  Generated to;
  return run(scheduler, request_of(prompt, max_tokens, temperature, to), to);
}

void expect_same(const Generated& a, const Generated& b, const std::string& what) {
  ASSERT_EQ(a.tokens.size(), b.tokens.size()) << what;
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].id, b.tokens[i].id) << what << ", token " << i;
    EXPECT_EQ(a.tokens[i].log_probability, b.tokens[i].log_probability) << what << ", token " << i;
  }
  EXPECT_EQ(a.finish, b.finish) << what;
}

std::string config(const char* type = "llama", const char* extra = "") {
  return std::string(R"({"model_type": ")") + type +
         R"(", "architectures": ["LlamaForCausalLM"], "vocab_size": 23,
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 300)" +
         extra + "}";
}

std::vector<int64_t> repeating(int64_t length) {
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < length; ++i) {
    prompt.push_back((i % 9) * (i % 9) % 23);
  }
  return prompt;
}

TEST(Speculation, LooksUpWhatFollowedTheLastTokens) {
  const std::vector<int64_t> tokens = {1, 2, 3, 4, 5, 9, 2, 3, 7, 1, 2, 3};
  EXPECT_EQ(look_up(tokens, 8, 4), (std::vector<int64_t>{4, 5, 9, 2}));  // 1 2 3, not 2 3
  EXPECT_EQ(look_up(tokens, 2, 2), (std::vector<int64_t>{7, 1}));        // the last 2 3
  EXPECT_EQ(look_up({1, 2, 3, 4}, 8, 4), std::vector<int64_t>());
  EXPECT_EQ(look_up({4, 4, 4}, 8, 8), (std::vector<int64_t>{4}));
  EXPECT_EQ(look_up({4}, 8, 8), std::vector<int64_t>());
  EXPECT_EQ(look_up({}, 8, 8), std::vector<int64_t>());
}

/// Greedy and sampled, of dense and windowed models, with a draft model that is often right (the
/// model itself, and one that shares its weights in part) and one that never is.
TEST(Speculation, ChangesNoBit) {
  for (const std::string& text : {config(), config("mistral", R"(, "sliding_window": 40)")}) {
    SCOPED_TRACE(text);
    const std::shared_ptr<const Model> model = create_model(text, 5);
    const std::shared_ptr<const Model> other = create_model(text, 6);
    Scheduler plain(*model, 4);
    int64_t accepted = 0;
    for (const Speculation& speculation :
         {Speculation{.lookup = true}, Speculation{.draft = model}, Speculation{.draft = other},
          Speculation{.lookup = true, .draft = model, .most = 3}}) {
      Scheduler fast(*model, 4);
      fast.speculate(speculation);
      for (const double temperature : {0.0, 0.3, 1.5}) {
        for (const int64_t length : {3, 130}) {
          const auto prompt = repeating(length);
          expect_same(run(fast, prompt, 40, temperature), run(plain, prompt, 40, temperature),
                      fmt::format("{} tokens at {}", length, temperature));
        }
      }
      EXPECT_GT(fast.guessed_tokens(), 0);
      EXPECT_LE(fast.accepted_tokens(), fast.guessed_tokens());
      if (speculation.draft == model && !speculation.lookup) {
        EXPECT_EQ(fast.accepted_tokens(), fast.guessed_tokens());
      }
      accepted += fast.accepted_tokens();
    }
    EXPECT_GT(accepted, 300);
  }
}

TEST(Speculation, ChangesNoBitInABatch) {
  const std::shared_ptr<const Model> model = create_model(config(), 5);
  std::vector<Generated> plain(6), fast(6);
  for (auto* all : {&plain, &fast}) {
    Scheduler scheduler(*model, 3);
    if (all == &fast) {
      scheduler.speculate({.lookup = true, .draft = create_model(config(), 9)});
    }
    for (size_t i = 0; i < all->size(); ++i) {
      Generated& to = (*all)[i];
      scheduler.add(request_of(repeating(20 + 31 * static_cast<int64_t>(i)), 50, 0.2, to),
                    [&to](FinishReason reason) { to.finish = reason; });
    }
    scheduler.run();
  }
  for (size_t i = 0; i < plain.size(); ++i) {
    expect_same(fast[i], plain[i], fmt::format("sequence {}", i));
  }
}

/// Penalties, mirostat, an end token and a reader that has enough: all as without guesses.
TEST(Speculation, KeepsEveryRule) {
  const std::shared_ptr<const Model> model = create_model(config(), 5);
  Scheduler plain(*model), fast(*model);
  fast.speculate({.draft = model});
  const auto both = [&](const char* what, const std::function<void(Request&)>& change) {
    Generated results[2];
    for (const int i : {0, 1}) {
      Request request = request_of(repeating(30), 80, 0.8, results[i]);
      change(request);
      run(i == 0 ? plain : fast, std::move(request), results[i]);
    }
    expect_same(results[1], results[0], what);
  };
  both("repetition", [](Request& r) { r.sampling.repetition_penalty = 1.3; });
  both("ngrams", [](Request& r) { r.sampling.no_repeat_ngram_size = 3; });
  both("mirostat", [](Request& r) { r.sampling.mirostat = 2; });
  both("end", [](Request& r) { r.end = {1, 4, 7}; });
  both("forced end", [](Request& r) { r.forced_eos_token_id = 2; });
  both("stop", [](Request& r) {
    r.on_token = [inner = r.on_token, count = 0](const SampledToken& token) mutable {
      return inner(token) && ++count < 17;
    };
  });
}

TEST(Speculation, ADraftOfAnotherVocabularyIsRefused) {
  const auto model = create_model(config(), 5);
  Scheduler scheduler(*model);
  std::string text = config();
  text.replace(text.find("23"), 2, "29");
  try {
    scheduler.speculate({.draft = create_model(text, 1)});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "draft model: it has 29 tokens, the model 23; both must use the same tokenizer");
  }
}

}  // namespace
}  // namespace heed::test
