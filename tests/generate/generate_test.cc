#include "heed/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "heed/error.h"
#include "heed/parallel.h"
#include "support/check.h"
#include "support/data.h"

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
  request.end = generation_ids(model).end;
  return request;
}

std::vector<int64_t> run_alone(const Model& model, Request request) {
  std::vector<int64_t> ids;
  request.on_token = [&](const Choice& choice) {
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
    options.early_stopping = run["early_stopping"];
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

INSTANTIATE_TEST_SUITE_P(Models, Reference, testing::Values("gpt2", "t5", "marian"));

TEST(Scheduler, ThirtyTwoRequestsThatJoinAtRandomStepsGetWhatTheyGetAlone) {
  const auto model = load_model(golden("generation/gpt2"));
  Random random(11);
  std::vector<Request> requests;
  for (int i = 0; i < 32; ++i) {
    std::vector<int64_t> prompt(1 + random.below(9));
    for (int64_t& id : prompt) {
      id = 3 + static_cast<int64_t>(random.below(15));
    }
    Request request = request_for(*model, prompt, 1 + static_cast<int64_t>(random.below(20)));
    if (i % 2 == 1) {
      request.sampling.temperature = 0.9;
      request.sampling.top_p = 0.9;
      request.sampling.seed = static_cast<uint64_t>(i);
    }
    requests.push_back(std::move(request));
  }
  std::vector<std::vector<Choice>> alone(32);
  for (size_t i = 0; i < requests.size(); ++i) {
    Request request = requests[i];
    request.on_token = [&alone, i](const Choice& c) {
      alone[i].push_back(c);
      return true;
    };
    Scheduler scheduler(*model, 1);
    scheduler.add(std::move(request));
    scheduler.run();
  }
  for (const int threads : {1, 3}) {
    set_thread_count(threads);
    std::vector<std::vector<Choice>> together(32);
    Scheduler scheduler(*model, 7);
    for (size_t next = 0; next < requests.size();) {
      for (uint64_t n = random.below(3); n > 0 && next < requests.size(); --n, ++next) {
        Request request = requests[next];
        request.on_token = [&together, next](const Choice& c) {
          together[next].push_back(c);
          return true;
        };
        scheduler.add(std::move(request));
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

TEST(Cache, StepByStepLogitsEqualTheFullPass) {
  for (const char* name : {"gpt2_lm", "llama_gqa"}) {
    const auto model = load_model(golden(std::string("models/") + name));
    const Tensor ids = random_indices({9}, model->vocabulary(), 3);
    ModelInput input;
    input.input_ids = reshape(ids, {1, 9});
    const Tensor full = reshape(model->forward(input).logits, {9, model->vocabulary()});
    SequenceCache cache = model->new_cache(9);
    for (int64_t i = 0; i < 9; ++i) {
      Pass pass;
      pass.layout = Layout::ragged({1});
      pass.caches = {&cache};
      const Tensor logits =
          model->logits(model->decode(slice(ids, 0, i, i + 1).contiguous(), pass));
      expect_close(logits, slice(full, 0, i, i + 1).contiguous(), {0, 1e-5}, name);
    }
  }
}

TEST(Sampling, FiltersKeepWhatTheySay) {
  const std::vector<float> logits{0.0f, 3.0f, 2.0f, 1.0f, -5.0f};
  auto seen = [&](const Sampling& sampling) {
    std::vector<int> counts(5, 0);
    for (uint64_t step = 0; step < 2000; ++step) {
      ++counts[static_cast<size_t>(choose_token(logits.data(), 5, sampling, 0, step, {}).id)];
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
  EXPECT_EQ(choose_token(logits.data(), 5, greedy, 0, 0, {1}).id, 2);
}

TEST(Sampling, NonsenseIsRefused) {
  for (const Sampling& bad : {Sampling{.temperature = 1e9}, Sampling{.top_p = -1.0},
                              Sampling{.min_p = 1.0}, Sampling{.repetition_penalty = 0.0}}) {
    EXPECT_THROW(bad.check(), Error);
  }
}

}  // namespace
}  // namespace heed::test
