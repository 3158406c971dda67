#include "generate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"
#include "tokenizers.h"

namespace heed::test {
namespace {

using nlohmann::json;

const json& expected() {
  static const json all = json::parse(read_file(golden("generation/sampling.json")));
  return all;
}

Sampling sampling_of(const json& options) {
  Sampling s;
  s.temperature = options.value("temperature", 1.0);
  s.top_k = options.value("top_k", int64_t{0});
  s.top_p = options.value("top_p", 1.0);
  s.min_p = options.value("min_p", 0.0);
  s.typical_p = options.value("typical_p", 1.0);
  s.repetition_penalty = options.value("repetition_penalty", 1.0);
  s.no_repeat_ngram_size = options.value("no_repeat_ngram_size", int64_t{0});
  const json biases = options.value("logit_bias", json::object());
  for (const auto& [id, bias] : biases.items()) {
    s.logit_bias.emplace_back(std::stoll(id), bias.get<float>());
  }
  return s;
}

TEST(Sampling, ProbabilitiesEqualThoseOfTransformersProcessors) {
  for (const json& run : expected()["sampling"]) {
    const Sampling sampling = sampling_of(run["options"]);
    std::vector<float> logits = run["logits"];
    process_logits(logits, run["tokens"].get<std::vector<int64_t>>(), 0, sampling);
    const std::vector<Candidate> found = candidate_tokens(logits, sampling);
    const json& wanted = run["probabilities"];
    EXPECT_EQ(found.size(), wanted.size()) << run["options"];
    double last = 1.0;
    for (const Candidate& c : found) {
      ASSERT_TRUE(wanted.contains(std::to_string(c.id))) << run["options"] << " " << c.id;
      EXPECT_NEAR(c.probability, wanted[std::to_string(c.id)].get<double>(), 1e-6);
      EXPECT_LE(c.probability, last + 1e-12) << "best first";
      last = c.probability;
    }
  }
}

/// What pick_token() chooses, from all candidates in order.
int64_t token_of_all(const std::vector<Candidate>& all, double point) {
  for (const Candidate& c : all) {
    if (point < c.probability) {
      return c.id;
    }
    point -= c.probability;
  }
  return all.back().id;
}

TEST(Sampling, ChoosesFromAPartInOrderWhatItWouldChooseFromAll) {
  Random values(7);
  for (const double spread : {0.01, 1.0, 4.0}) {  // from all alike to a few likely ones
    std::vector<float> logits(3000);
    for (float& logit : logits) {
      logit = static_cast<float>(spread * values.normal());
    }
    logits[10] = logits[2000] = logits[30];
    const Sampling sampling{.temperature = 0.9, .seed = 5};
    const std::vector<Candidate> all = candidate_tokens(logits, sampling);
    ASSERT_EQ(all.size(), logits.size());
    MirostatState state(sampling);
    for (uint64_t step = 0; step < 500; ++step) {
      Random random(sampling.seed, 3);
      random.seek(step * 2);
      const double point = random.uniform();
      const int64_t wanted = token_of_all(all, point);
      EXPECT_EQ(token_at(logits, sampling, point), wanted);
      EXPECT_EQ(pick_token(logits, sampling, 3, step, state), wanted);
    }
  }
}

TEST(Sampling, LooksAtAllWhereRoundingCouldDecideAndWhereThereAreFilters) {
  const std::vector<float> logits(4, 0.0F);
  const Sampling plain{.temperature = 1.0};
  EXPECT_EQ(token_at(logits, plain, 0.2), 0);
  EXPECT_EQ(token_at(logits, plain, 0.3), 1);
  EXPECT_EQ(token_at(logits, plain, 0.25), std::nullopt);
  EXPECT_EQ(token_at(logits, plain, 0.5 - 1e-16), std::nullopt);
  EXPECT_EQ(token_at(logits, plain, 0.99), 3);
  for (const Sampling& filtered :
       {Sampling{.temperature = 1.0, .top_k = 2}, Sampling{.temperature = 1.0, .top_p = 0.9},
        Sampling{.temperature = 1.0, .min_p = 0.1}, Sampling{.temperature = 1.0, .typical_p = 0.9},
        Sampling{.temperature = 1.0, .mirostat = 2}}) {
    EXPECT_EQ(token_at(logits, filtered, 0.2), std::nullopt);
  }
}

TEST(Beams, PenaltiesAndEarlyStoppingEqualHuggingFace) {
  for (const auto& [name, runs] : expected()["beams"].items()) {
    const auto model = load_model(golden("generation/" + name));
    const json inputs = json::parse(read_file(golden("generation/" + name + "/expected.json")));
    for (const json& run : runs) {
      BeamOptions options;
      options.beams = options.n_best = run["num_beams"];
      options.length_penalty = run["length_penalty"];
      const json& early = run["early_stopping"];
      options.early_stopping = early_stopping_from_name(early.is_string() ? early.get<std::string>()
                                                        : early.get<bool>() ? "true"
                                                                            : "false");
      for (size_t i = 0; i < inputs["inputs"].size(); ++i) {
        const std::vector<int64_t> ids = inputs["inputs"][i];
        Request request;
        if (model->kind() == ModelKind::decoder) {
          request.prompt = ids;
        } else {
          request.encoder.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
        }
        request.max_tokens = inputs["max_new_tokens"];
        request.end = generation_tokens(*model).end;
        request.sampling = sampling_of(run);
        const auto found = beam_search(*model, request, options);
        ASSERT_EQ(found.size(), run["results"][i].size());
        for (size_t h = 0; h < found.size(); ++h) {
          EXPECT_EQ(found[h].ids, run["results"][i][h]["ids"].get<std::vector<int64_t>>())
              << name << " " << i << " " << h << " " << early << run["length_penalty"];
          EXPECT_NEAR(found[h].score, run["results"][i][h]["score"].get<double>(), 1e-4);
        }
      }
    }
  }
}

TEST(Sampling, ATinyTemperatureIsGreedy) {
  const std::vector<float> logits{1.0F, 3.0F, 3.0F, -2.0F};
  for (const double temperature : {0.0, 1e-320, 1e-300, 1e-100, 1e-12}) {
    for (uint64_t step = 0; step < 50; ++step) {
      const Sampling sampling{.temperature = temperature};
      EXPECT_EQ(sample_token(logits.data(), 4, sampling, 0, step, {}).id, 1) << temperature;
    }
  }
  // Just above, differences count and nothing overflows.
  const auto found = candidate_tokens(logits, {.temperature = 1e-8});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].probability, 0.5);
}

TEST(Sampling, TopNSigmaKeepsWhatIsNearTheBest) {
  std::vector<float> logits(100, 0.0F);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = std::sin(static_cast<float>(i) * 1.7F) * 3.0F;
  }
  logits[7] = -std::numeric_limits<float>::infinity();  // ruled out: does not count
  double mean = 0.0;
  double variance = 0.0;
  float best = -10.0F;
  for (const float logit : logits) {
    mean += std::isfinite(logit) ? logit / 99.0 : 0.0;
    best = std::max(best, logit);
  }
  for (const float logit : logits) {
    variance += std::isfinite(logit) ? (logit - mean) * (logit - mean) / 99.0 : 0.0;
  }
  for (const double sigmas : {0.1, 0.5, 1.0, 2.0}) {
    for (const double temperature : {0.5, 1.0, 3.0}) {  // does not change what is kept
      const auto found =
          candidate_tokens(logits, {.temperature = temperature, .top_n_sigma = sigmas});
      size_t wanted = 0;
      for (const float logit : logits) {
        wanted += logit >= best - sigmas * std::sqrt(variance) ? 1 : 0;
      }
      EXPECT_EQ(found.size(), wanted) << sigmas;
    }
  }
}

TEST(Penalties, FrequencyAndPresenceLookAtWhatWasGenerated) {
  std::vector<float> logits(6, 1.0F);
  const Sampling sampling{.frequency_penalty = 0.5, .presence_penalty = 0.25};
  process_logits(logits, {0, 1, 1, 2, 3, 3, 3}, 3, sampling);
  EXPECT_EQ(logits, (std::vector<float>{1.0F, 1.0F, 0.25F, -0.75F, 1.0F, 1.0F}));
}

/// DRY as its author describes it, one loop per candidate.
std::vector<float> plain_dry(std::vector<float> logits, const std::vector<int64_t>& tokens,
                             const Sampling& s) {
  const auto breaks = [&](int64_t id) {
    return std::find(s.dry_breakers.begin(), s.dry_breakers.end(), id) != s.dry_breakers.end();
  };
  std::vector<int64_t> longest(logits.size(), 0);
  const auto count = static_cast<int64_t>(tokens.size());
  for (int64_t i = 0; i + 1 < count; ++i) {
    int64_t length = 0;
    while (length <= i &&
           tokens[static_cast<size_t>(i - length)] ==
               tokens[static_cast<size_t>(count - 1 - length)] &&
           !breaks(tokens[static_cast<size_t>(i - length)])) {
      ++length;
    }
    const int64_t next = tokens[static_cast<size_t>(i + 1)];
    if (!breaks(next)) {
      longest[static_cast<size_t>(next)] = std::max(longest[static_cast<size_t>(next)], length);
    }
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    if (longest[id] >= s.dry_allowed_length) {
      logits[id] -= static_cast<float>(
          s.dry_multiplier *
          std::pow(s.dry_base, static_cast<double>(longest[id] - s.dry_allowed_length)));
    }
  }
  return logits;
}

TEST(Penalties, DryEqualsItsPlainDescription) {
  Random random(5);
  for (int run = 0; run < 500; ++run) {
    const uint64_t vocabulary = 2 + random.below(5);
    std::vector<int64_t> tokens(1 + random.below(40));
    for (int64_t& id : tokens) {
      id = static_cast<int64_t>(random.below(vocabulary));
    }
    Sampling sampling{.dry_multiplier = 0.8, .dry_base = 1.1};
    sampling.dry_allowed_length = 1 + static_cast<int64_t>(random.below(3));
    if (run % 2 == 1) {
      sampling.dry_breakers = {1};
    }
    std::vector<float> logits(vocabulary, 2.0F);
    const std::vector<float> wanted = plain_dry(logits, tokens, sampling);
    process_logits(logits, tokens, 0, sampling);
    EXPECT_EQ(logits, wanted) << run;
  }
}

TEST(Penalties, DryLooksBackOnlyAsFarAsItIsTold) {
  std::vector<float> logits(5, 0.0F);
  Sampling sampling{.dry_multiplier = 1.0};
  sampling.dry_range = 3;
  process_logits(logits, {1, 2, 3, 4, 1, 2}, 0, sampling);  // the first 1 2 3 is out of sight
  EXPECT_EQ(logits[3], 0.0F);
  sampling.dry_range = -1;
  process_logits(logits, {1, 2, 3, 4, 1, 2}, 0, sampling);
  EXPECT_EQ(logits[3], -1.0F);
  // A very long repetition does not make logits that are no numbers.
  std::vector<int64_t> tokens(20000, 1);
  process_logits(logits, tokens, 0, sampling);
  EXPECT_TRUE(std::isfinite(logits[1]));
}

TEST(Mirostat, KeepsTheSurpriseAtItsTarget) {
  std::vector<float> logits(500);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = -1.1F * std::log(static_cast<float>(i + 1));  // Zipf's law
  }
  for (const double target : {1.0, 2.0, 4.0}) {
    const Sampling sampling{.temperature = 1.0, .mirostat = 2, .mirostat_tau = target};
    MirostatState state(sampling);
    double sum = 0.0;
    constexpr int kSteps = 2000;
    for (uint64_t step = 0; step < kSteps; ++step) {
      const double before = state.limit;
      pick_token(logits, sampling, 0, step, state);
      sum += target + (before - state.limit) / sampling.mirostat_eta;  // what was observed
    }
    EXPECT_NEAR(sum / kSteps, target, 0.05 * target);
    EXPECT_LT(state.limit, 20.0);
  }
  // Without it, the same logits surprise by their entropy, which is well above.
  const auto all = candidate_tokens(logits, {.temperature = 1.0});
  double entropy = 0.0;
  for (const Candidate& c : all) {
    entropy -= c.probability * std::log2(c.probability);
  }
  EXPECT_GT(entropy, 5.0);
}

TEST(Sampling, NewOptionsRefuseNonsense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<Sampling, const char*> refused[] = {
      {{.typical_p = 0.0}, "typical_p: 0 is out of range; above 0, up to 1"},
      {{.typical_p = 1.5}, "typical_p: 1.5 is out of range"},
      {{.mirostat = 1}, "mirostat: 1 is out of range; 0 (off) or 2"},
      {{.mirostat_tau = 0.0}, "mirostat_tau: 0 is out of range"},
      {{.top_n_sigma = -1.0}, "top_n_sigma: -1 is out of range; 0 (off) to 1e6"},
      {{.temperature = nan}, "temperature: nan is out of range"},
      {{.logit_bias = {{-1, 0.0F}}}, "logit_bias: -1 is out of range; a token id"},
      {{.frequency_penalty = nan}, "frequency_penalty: nan is out of range"},
      {{.no_repeat_ngram_size = -1}, "no_repeat_ngram_size: -1 is out of range; 0 (off) or more"},
      {{.dry_base = 0.5}, "dry_base: 0.5 is out of range; 1 to 100"},
      {{.dry_allowed_length = 0}, "dry_allowed_length: 0 is out of range"},
      {{.dry_range = -2}, "dry_range: -2 is out of range; -1 (all) or more"},
  };
  for (const auto& each : refused) {
    EXPECT_ERROR(each.first.check(), each.second);
  }
  EXPECT_ERROR(early_stopping_from_name("maybe"),
               "early_stopping: 'maybe' is not known; true, false or never");
  const auto model = load_model(golden("generation/gpt2"));
  Request request;
  request.prompt = {1};
  request.sampling.logit_bias = {{model->vocab_size(), 1.0F}};
  Scheduler scheduler(*model);
  EXPECT_ERROR(scheduler.add(std::move(request)),
               "logit_bias: 23 is no token id: the model has 23 tokens");
}

/// The text of `ids` behind a prompt.
std::string continuation(const Tokenizer& tokenizer, const std::vector<int64_t>& prompt,
                         const std::vector<int64_t>& ids) {
  TextStream stream(tokenizer, {}, prompt);
  std::string text;
  for (const int64_t id : ids) {
    text += stream.push(id);
  }
  return text + stream.finish();
}

TEST(TextStream, ContinuesAPromptExactly) {
  const std::vector<std::string> texts{"Lily and Tom",  "Lily\n and 한글", "a  b",   " x", "é",
                                       "Lily\n\n  Tom", "한국어 글",       "🙂 ok"};
  for (const Tokenizer& tokenizer : {llama_tokenizer(), byte_level_tokenizer()}) {
    for (const std::string& text : texts) {
      const std::vector<TokenId> all = tokenizer.encode_ids(text, false);
      const std::vector<int64_t> ids(all.begin(), all.end());
      for (size_t cut = 0; cut <= ids.size(); ++cut) {
        const std::vector<int64_t> prompt(ids.begin(), ids.begin() + static_cast<int64_t>(cut));
        const std::vector<int64_t> rest(ids.begin() + static_cast<int64_t>(cut), ids.end());
        const std::vector<TokenId> read(prompt.begin(), prompt.end());
        const std::string before = tokenizer.decode(read);
        if (before.find("\xEF\xBF\xBD") == std::string::npos && text.starts_with(before)) {
          EXPECT_EQ(before + continuation(tokenizer, prompt, rest), text) << cut;
        }
      }
    }
  }
  const Tokenizer llama = llama_tokenizer();
  const auto id = [&](const char* token) { return int64_t{*llama.token_to_id(token)}; };
  EXPECT_EQ(continuation(llama, {1, id("▁Lily")}, {id("▁and")}), " and");
  EXPECT_EQ(continuation(llama, {1}, {id("▁and")}), "and") << "a text of its own";
  EXPECT_EQ(continuation(llama, {}, {id("▁and")}), "and");
}

}  // namespace
}  // namespace heed::test
