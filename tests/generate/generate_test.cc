#include "heed/generate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

nlohmann::json expected_of(const std::string& name) {
  return nlohmann::json::parse(read_file(golden("generation/" + name + "/expected.json")));
}

Request request_for(const Model& model, const std::vector<int64_t>& ids, int64_t max_tokens) {
  Request request;
  if (model.kind() == ModelKind::decoder) {
    request.prompt = ids;
  } else {
    request.encoder.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
  }
  request.max_tokens = max_tokens;
  apply_generation_tokens(model, request);
  return request;
}

std::vector<int64_t> run_alone(const Model& model, Request request) {
  std::vector<int64_t> ids;
  request.on_token = [&](const SampledToken& choice) {
    ids.push_back(choice.id);
    return true;
  };
  Scheduler scheduler(model);
  scheduler.add(std::move(request));
  scheduler.run();
  return ids;
}

class Reference : public testing::TestWithParam<const char*> {};

TEST_P(Reference, GreedyEqualsHuggingFace) {
  const auto model = load_model(golden("generation/" + std::string(GetParam())));
  const nlohmann::json expected = expected_of(GetParam());
  for (size_t i = 0; i < expected["inputs"].size(); ++i) {
    EXPECT_EQ(
        run_alone(*model, request_for(*model, expected["inputs"][i], expected["max_new_tokens"])),
        expected["greedy"][i].get<std::vector<int64_t>>());
  }
}

TEST_P(Reference, BeamsEqualHuggingFaceInIdsAndScores) {
  const auto model = load_model(golden("generation/" + std::string(GetParam())));
  const nlohmann::json expected = expected_of(GetParam());
  for (const nlohmann::json& run : expected["beams"]) {
    BeamOptions options;
    options.beams = options.n_best = run["num_beams"];
    options.length_penalty = run["length_penalty"];
    options.early_stopping =
        run["early_stopping"].get<bool>() ? EarlyStopping::yes : EarlyStopping::no;
    for (size_t i = 0; i < expected["inputs"].size(); ++i) {
      const auto found = beam_search(
          *model, request_for(*model, expected["inputs"][i], expected["max_new_tokens"]), options);
      const nlohmann::json& wanted = run["results"][i];
      ASSERT_EQ(found.size(), wanted.size());
      for (size_t h = 0; h < found.size(); ++h) {
        EXPECT_EQ(found[h].ids, wanted[h]["ids"].get<std::vector<int64_t>>())
            << run << i << " " << h;
        EXPECT_NEAR(found[h].score, wanted[h]["score"].get<double>(), 1e-4);
      }
    }
  }
}

TEST_P(Reference, BeamsOfManyRequestsTogetherAreThoseOfEachAlone) {
  const auto model = load_model(golden("generation/" + std::string(GetParam())));
  const nlohmann::json expected = expected_of(GetParam());
  BeamOptions options;
  options.beams = options.n_best = 3;
  std::vector<Request> requests;
  for (const nlohmann::json& input : expected["inputs"]) {
    for (const int64_t most : {3, 9, 17}) {  // they end at different steps
      requests.push_back(request_for(*model, input, most));
    }
  }
  const auto together = beam_search(*model, requests, options);
  ASSERT_EQ(together.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto alone = beam_search(*model, requests[i], options);
    ASSERT_EQ(together[i].size(), alone.size());
    for (size_t h = 0; h < alone.size(); ++h) {
      EXPECT_EQ(together[i][h].ids, alone[h].ids) << i;
      EXPECT_EQ(together[i][h].score, alone[h].score) << i << ": every bit";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Reference,
                         testing::Values("gpt2", "t5", "marian", "bart", "mbart", "m2m_100",
                                         "pegasus"));

/// Every other request sampled, with prompts of [shortest, longest] ids.
std::vector<Request> random_requests(const Model& model, int count, uint64_t shortest,
                                     uint64_t longest, uint64_t most_tokens) {
  Random random(11);
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    std::vector<int64_t> prompt(shortest + random.below(longest - shortest + 1));
    for (int64_t& id : prompt) {
      id = 3 + static_cast<int64_t>(random.below(15));
    }
    Request request =
        request_for(model, prompt, 1 + static_cast<int64_t>(random.below(most_tokens)));
    if (i % 2 == 1) {
      request.sampling.temperature = 0.9;
      request.sampling.top_p = 0.9;
      request.sampling.seed = static_cast<uint64_t>(i);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Requests that join at random steps get, bit for bit, what they get alone.
void expect_company_changes_nothing(const Model& model, const std::vector<Request>& requests) {
  std::vector<std::vector<SampledToken>> alone(requests.size());
  const auto into = [](std::vector<SampledToken>& choices, Request request) {
    request.on_token = [&choices](const SampledToken& c) {
      choices.push_back(c);
      return true;
    };
    return request;
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    Scheduler scheduler(model, 1);
    scheduler.add(into(alone[i], requests[i]));
    scheduler.run();
  }
  Random random(12);
  for (const int threads : {1, 3}) {
    set_thread_count(threads);
    std::vector<std::vector<SampledToken>> together(requests.size());
    Scheduler scheduler(model, 7);
    for (size_t next = 0; next < requests.size();) {
      for (uint64_t n = random.below(3); n > 0 && next < requests.size(); --n, ++next) {
        scheduler.add(into(together[next], requests[next]));
      }
      scheduler.step();
    }
    scheduler.run();
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_EQ(together[i].size(), alone[i].size()) << i;
      for (size_t t = 0; t < alone[i].size(); ++t) {
        EXPECT_EQ(together[i][t].id, alone[i][t].id);
        EXPECT_EQ(together[i][t].log_probability, alone[i][t].log_probability);  // bit for bit
      }
    }
  }
  set_thread_count(2);
}

TEST(Scheduler, ThirtyTwoRequestsThatJoinAtRandomStepsGetWhatTheyGetAlone) {
  const auto model = load_model(golden("generation/gpt2"));
  expect_company_changes_nothing(*model, random_requests(*model, 32, 1, 9, 20));
}

/// A small Mistral that looks back on 100 positions.
std::unique_ptr<Model> windowed_model() {
  return create_model(
      R"({"model_type": "mistral", "hidden_size": 24, "num_hidden_layers": 2,
          "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 32,
          "max_position_embeddings": 100000, "vocab_size": 19, "sliding_window": 100,
          "initializer_range": 0.4})",
      3);
}

TEST(Window, RequestsLongerThanTheCacheGetTogetherWhatTheyGetAlone) {
  const auto model = windowed_model();
  expect_company_changes_nothing(*model, random_requests(*model, 9, 560, 700, 150));
}

/// Logits of new tokens, through the cache.
Tensor feed(const Model& model, const Tensor& ids, int64_t begin, int64_t end,
            SequenceCache& cache) {
  const NoGrad no_grad;
  Pass pass;
  pass.layout = Layout::ragged({end - begin});
  pass.caches = {&cache};
  return model.logits(model.decode(slice(ids, 0, begin, end).contiguous(), pass));
}

TEST(Window, ABoundedCacheGivesTheBitsOfTheMaskedFullPass) {
  const NoGrad no_grad;
  const auto model = windowed_model();
  constexpr int64_t kLength = 2200;
  constexpr int64_t kMost = 100 + 64 + 512;  // the window, a tile, a chunk
  const Tensor ids = random_indices({kLength}, 19, 3);
  ModelInput input;
  input.input_ids = reshape(ids, {1, kLength});
  const Tensor full = reshape(model->forward(input).logits, {kLength, 19});
  SequenceCache cache = model->new_cache(kLength);
  const auto expect_bits = [&](int64_t begin, int64_t end, SequenceCache& in) {
    expect_same_bits(feed(*model, ids, begin, end, in), slice(full, 0, begin, end).contiguous(),
                     fmt::format("positions {} to {}", begin, end));
    EXPECT_EQ(in.length, end);
    EXPECT_EQ(in.self[1].first() % 64, 0);
    EXPECT_EQ(in.self[1].keys().size(2), end - in.self[1].first());
  };
  for (int64_t at = 0; at < 1100; ++at) {  // token by token, far beyond the window
    expect_bits(at, at + 1, cache);
    EXPECT_LE(cache.self[1].keys().size(2), kMost);
  }
  EXPECT_GT(cache.self[0].first(), 900 - 512);
  SequenceCache copy = cache.copy();
  for (int64_t at = 1100; at < 2124; at += 512) {  // in the chunks of a prompt
    expect_bits(at, at + 512, cache);
    EXPECT_LE(cache.self[1].keys().size(2), kMost);
  }
  expect_bits(1100, 1101, copy);  // the copy goes its own way,
  expect_bits(1101, 2199, copy);  // all at once: this grows the capacity
  expect_bits(2199, 2200, copy);
}

TEST(Window, MemoryIsTheWindowsHoweverLongTheSequence) {
  const auto model = windowed_model();
  const KvCache cache = model->new_cache(100000).self.front();
  constexpr int64_t kPosition = 2 * 8 * sizeof(float);  // one head of keys and values
  EXPECT_EQ(cache.bytes_for(50), 50 * kPosition);
  EXPECT_EQ(cache.bytes_for(100000), (100 + 64 + 512) * kPosition);
  SequenceCache full = model->new_cache(10);
  feed(*model, random_indices({10}, 19, 3), 0, 10, full);
  EXPECT_ERROR(feed(*model, random_indices({1}, 19, 3), 0, 1, full),
               "cache: 1 positions do not fit: 10 of 10 are taken");
}

TEST(Cache, StepByStepLogitsEqualTheFullPass) {
  for (const char* name : {"gpt2_lm", "llama_gqa", "mistral_window"}) {
    const auto model = load_model(golden(std::string("models/") + name));
    const Tensor ids = random_indices({9}, model->vocab_size(), 3);
    ModelInput input;
    input.input_ids = reshape(ids, {1, 9});
    const Tensor full = reshape(model->forward(input).logits, {9, model->vocab_size()});
    SequenceCache cache = model->new_cache(9);
    for (int64_t i = 0; i < 9; ++i) {
      expect_close(feed(*model, ids, i, i + 1, cache), slice(full, 0, i, i + 1).contiguous(),
                   {0, 1e-5}, name);
    }
  }
}

TEST(Sampling, FiltersKeepWhatTheySay) {
  const std::vector<float> logits{0.0f, 3.0f, 2.0f, 1.0f, -5.0f};
  auto seen = [&](const Sampling& sampling) {
    std::vector<int> counts(5, 0);
    for (uint64_t step = 0; step < 2000; ++step) {
      ++counts[static_cast<size_t>(sample_token(logits.data(), 5, sampling, 0, step, {}).id)];
    }
    return counts;
  };
  Sampling sampling;
  sampling.temperature = 1.0;
  const auto all = seen(sampling);
  EXPECT_NEAR(all[1] / 2000.0, std::exp(3.0) / (1 + std::exp(3.0) + std::exp(2.0) + std::exp(1.0)),
              0.04);
  sampling.top_k = 2;
  EXPECT_EQ(seen(sampling)[0] + seen(sampling)[3] + seen(sampling)[4], 0);
  sampling.top_k = 0;
  sampling.top_p = 0.5;
  EXPECT_EQ(seen(sampling)[1], 2000);
  sampling.top_p = 1.0;
  sampling.min_p = 0.3;
  EXPECT_EQ(seen(sampling)[0] + seen(sampling)[3] + seen(sampling)[4], 0);
  Sampling greedy;
  greedy.repetition_penalty = 2.0;
  EXPECT_EQ(sample_token(logits.data(), 5, greedy, 0, 0, {1}).id, 2);
}

TEST(Sampling, NonsenseIsRefused) {
  EXPECT_ERROR((Sampling{.temperature = 1e9}).check(), "temperature: 1000000000 is out of range");
  EXPECT_ERROR((Sampling{.top_p = -1.0}).check(), "top_p: -1 is out of range; above 0, up to 1");
  EXPECT_ERROR((Sampling{.min_p = 1.0}).check(), "min_p: 1 is out of range");
  EXPECT_ERROR((Sampling{.repetition_penalty = 0.0}).check(), "above 0, up to 100");
}

/// A folder whose configuration and generation_config.json are changed.
class Folder {
 public:
  explicit Folder(const std::string& name) {
    std::filesystem::copy(golden("generation/" + name), folder_.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove(folder_ / "generation_config.json");
    config = nlohmann::json::parse(read_file(folder_ / "config.json"));
  }
  std::unique_ptr<Model> load() const {
    write_file_atomically(folder_ / "config.json", config.dump());
    if (!generation.is_null()) {
      write_file_atomically(folder_ / "generation_config.json", generation.dump());
    }
    return load_model(folder_.path());
  }
  nlohmann::json config, generation;

 private:
  TemporaryFolder folder_;
};

/// Small models keep the ids of the vocabulary that their configuration was made for.
TEST(GenerationRules, IdsOutsideTheVocabularyEndNothing) {
  Folder folder("gpt2");
  folder.config["eos_token_id"] = folder.config["bos_token_id"] = 50256;
  EXPECT_TRUE(generation_tokens(*folder.load()).end.empty());
  folder.config["eos_token_id"] = {3, 50256};
  EXPECT_EQ(generation_tokens(*folder.load()).end, std::vector<int64_t>{3});
}

TEST(GenerationRules, GenerationConfigGoesBeforeTheConfiguration) {
  Folder folder("marian");
  folder.config["eos_token_id"] = 1;
  folder.config["forced_eos_token_id"] = 2;
  EXPECT_EQ(generation_tokens(*folder.load()).forced_eos_token_id, 2);
  folder.generation = {{"eos_token_id", {3, 4}}, {"bad_words_ids", {{5}, {6, 7}}}};
  const auto model = folder.load();
  const GenerationTokens ids = generation_tokens(*model);
  EXPECT_EQ(ids.end, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(ids.suppress_tokens, std::vector<int64_t>{5});
  EXPECT_EQ(ids.forced_eos_token_id, -1);
  // It goes along with the model, and is no part of config.json.
  const TemporaryFolder saved;
  save_model(*model, saved.path());
  EXPECT_EQ(nlohmann::json::parse(read_file(saved / "generation_config.json")), folder.generation);
  EXPECT_FALSE(
      nlohmann::json::parse(read_file(saved / "config.json")).contains("generation_config"));
}

TEST(GenerationRules, AWrongValueIsBlamedOnTheFileItIsIn) {
  Folder folder("marian");
  folder.generation = {{"eos_token_id", "x"}};
  EXPECT_ERROR(generation_tokens(*folder.load()), "generation_config.json: eos_token_id is \"x\"");
  folder.generation = {{"eos_token_id", 1}};
  folder.config["bos_token_id"] = folder.config["decoder_start_token_id"] = "y";
  EXPECT_ERROR(generation_tokens(*folder.load()), "config.json: decoder_start_token_id is \"y\"");
}

TEST(GenerationRules, ForcedEndAndForbiddenTokensAreFollowed) {
  Folder folder("marian");
  folder.config["eos_token_id"] = nullptr;
  const nlohmann::json expected = expected_of("marian");
  const std::vector<int64_t> input = expected["inputs"][0];
  const auto plain = run_alone(*folder.load(), request_for(*folder.load(), input, 4));
  ASSERT_EQ(plain.size(), 4u);
  const int64_t other = plain[3] == 2 ? 3 : 2;
  folder.generation = {{"forced_eos_token_id", other}, {"bad_words_ids", {{plain[0]}}}};
  const auto model = folder.load();
  Request request = request_for(*model, input, 4);
  apply_generation_tokens(*model, request);
  const std::vector<int64_t> greedy = run_alone(*model, request);
  EXPECT_EQ(greedy.back(), other);
  EXPECT_EQ(std::count(greedy.begin(), greedy.end() - 1, plain[0]), 0);
  BeamOptions options;
  options.beams = 1;
  EXPECT_EQ(beam_search(*model, request, options)[0].ids, greedy);
  options.beams = options.n_best = 4;
  for (const Hypothesis& found : beam_search(*model, request, options)) {
    EXPECT_EQ(found.ids.back(), other);
    EXPECT_EQ(std::count(found.ids.begin(), found.ids.end() - 1, plain[0]), 0);
  }
}

TEST(GenerationRules, AModelWithoutAHeadSaysSo) {
  for (const char* config :
       {R"({"model_type": "gpt2", "architectures": ["GPT2Model"], "n_embd": 8, "n_layer": 1,
            "n_head": 2, "n_positions": 8, "vocab_size": 11})",
        R"({"model_type": "llama", "architectures": ["LlamaModel"], "hidden_size": 8,
            "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
            "max_position_embeddings": 8, "vocab_size": 11})"}) {
    const auto model = create_model(config, 1);
    try {
      run_alone(*model, request_for(*model, {1, 2}, 3));
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("no LM head"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace heed::test
