// What the routes answer, and that it does not depend on what else the server does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <thread>

#include "base/base64.h"
#include "serve/http_message.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

TestServer& all_models() {
  static TestServer server({"lm", "lm2", "encoder", "classifier", "masked", "translator"});
  return server;
}

TEST(Api, ListsItsModels) {
  const json list = all_models().get("/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 6);
  const json lm = all_models().get("/v1/models/lm").json();
  EXPECT_EQ(lm["id"], "lm");
  EXPECT_EQ(lm["tasks"], json::array({"text-generation"}));
  EXPECT_EQ(lm["context_length"], 2048);
  EXPECT_EQ(lm["aliases"], json::array());
  const Answer missing = all_models().get("/v1/models/nothing");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.json()["error"]["code"], "model_not_found");
}

TEST(Api, CompletesTexts) {
  const json body = {{"model", "lm"},    {"prompt", {"the fox", "one two"}},
                     {"max_tokens", 12}, {"n", 2},
                     {"seed", 7},        {"logprobs", 3}};
  const Answer answer = all_models().post("/v1/completions", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json result = answer.json();
  EXPECT_EQ(result["object"], "text_completion");
  ASSERT_EQ(result["choices"].size(), 4);
  EXPECT_EQ(result["usage"]["completion_tokens"], 48);
  for (int i = 0; i < 4; ++i) {
    const json& choice = result["choices"][i];
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(choice["finish_reason"], "length");
    ASSERT_EQ(choice["logprobs"]["tokens"].size(), 12);
    for (const json& value : choice["logprobs"]["token_logprobs"]) {
      EXPECT_LE(value.get<double>(), 0.0);
    }
    EXPECT_LE(choice["logprobs"]["top_logprobs"][0].size(), 3);
  }
  EXPECT_NE(result["choices"][0]["text"], result["choices"][1]["text"]);  // two samples
  EXPECT_EQ(all_models().post("/v1/completions", body).json()["choices"], result["choices"]);
}

TEST(Api, StreamsTheSameTextInPieces) {
  json body = {{"model", "lm"},
               {"prompt", "the fox"},
               {"max_tokens", 40},
               {"seed", 3},
               {"temperature", 1.0}};
  const std::string whole = all_models().post("/v1/completions", body).json()["choices"][0]["text"];
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const Answer answer = all_models().post("/v1/completions", body);
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.fields.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  const std::vector<json> events = answer.events();
  ASSERT_GE(events.size(), 3);
  std::string text;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    text += events[i]["choices"][0]["text"];
    const bool last = i + 2 == events.size();
    EXPECT_EQ(events[i]["choices"][0]["finish_reason"], last ? json("length") : json());
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
  }
  EXPECT_EQ(text, whole);
  EXPECT_EQ(events.back()["choices"], json::array());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 40);
}

TEST(Api, StopsAtStopStrings) {
  json body = {{"model", "lm"}, {"prompt", "the fox"}, {"max_tokens", 60}, {"temperature", 0}};
  const std::string whole = all_models().post("/v1/completions", body).json()["choices"][0]["text"];
  ASSERT_GT(whole.size(), 12);
  const std::string stop = whole.substr(8, 3);
  body["stop"] = json::array({stop, "never to be seen"});
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    const Answer answer = all_models().post("/v1/completions", body);
    std::string text, reason;
    if (stream) {
      for (const json& each : answer.events()) {
        text += each["choices"][0]["text"];
        reason = each["choices"][0]["finish_reason"].is_null()
                     ? ""
                     : each["choices"][0]["finish_reason"].get<std::string>();
      }
    } else {
      text = answer.json()["choices"][0]["text"];
      reason = answer.json()["choices"][0]["finish_reason"];
    }
    EXPECT_EQ(text, whole.substr(0, whole.find(stop)));
    EXPECT_EQ(reason, "stop");
  }
}

TEST(Api, PenaltiesAndBiasesChangeWhatIsChosen) {
  json body = {{"model", "lm"},
               {"prompt", "the fox"},
               {"max_tokens", 20},
               {"temperature", 0},
               {"logprobs", 0}};
  const json plain = all_models().post("/v1/completions", body).json()["choices"][0];
  body["logit_bias"] = {{"70", 100}};
  const json biased = all_models().post("/v1/completions", body).json()["choices"][0];
  const std::string only = biased["logprobs"]["tokens"][0];
  for (const json& token : biased["logprobs"]["tokens"]) {
    EXPECT_EQ(token, only);
  }
  body["logit_bias"] = {{"99999", 1}};
  EXPECT_EQ(all_models().post("/v1/completions", body).param(), "logit_bias");
  body.erase("logit_bias");
  body["presence_penalty"] = 2.0;
  body["frequency_penalty"] = 2.0;
  const json varied = all_models().post("/v1/completions", body).json()["choices"][0];
  std::map<std::string, int> counts;
  for (const json& token : varied["logprobs"]["tokens"]) {
    ++counts[token];
  }
  std::map<std::string, int> plain_counts;
  for (const json& token : plain["logprobs"]["tokens"]) {
    ++plain_counts[token];
  }
  EXPECT_GE(counts.size(), plain_counts.size());
}

TEST(Api, AnswersFollowAJsonSchemaOrAGrammar) {
  const json schema = {{"type", "object"},
                       {"properties",
                        {{"size", {{"type", "integer"}, {"minimum", 10}, {"maximum", 99}}},
                         {"kind", {{"enum", {"fox", "dog"}}}}}},
                       {"required", {"size", "kind"}},
                       {"additionalProperties", false}};
  json body = {
      {"model", "lm"}, {"prompt", "the fox"}, {"max_tokens", 200}, {"json_schema", schema}};
  for (int seed = 0; seed < 10; ++seed) {
    body["seed"] = seed;
    body["temperature"] = seed == 0 ? 0.0 : 1.0;
    const json choice = all_models().post("/v1/completions", body).json()["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    const json value = json::parse(choice["text"].get<std::string>());
    EXPECT_EQ(value.size(), 2u) << value;
    EXPECT_GE(value["size"].get<int>(), 10);
    EXPECT_LE(value["size"].get<int>(), 99);
    EXPECT_TRUE(value["kind"] == "fox" || value["kind"] == "dog");
  }
  body.erase("json_schema");
  body["grammar"] = "root ::= \"the \" (\"fox\" | \"dog\") \"!\"{3}";
  const std::string text = all_models().post("/completion", body).json()["content"];
  EXPECT_TRUE(text == "the fox!!!" || text == "the dog!!!") << text;
  body["grammar"] = "root ::= x";
  const Answer bad = all_models().post("/v1/completions", body);
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.param(), "grammar");
  EXPECT_NE(bad.body.find("there is no rule 'x'"), std::string::npos) << bad.body;
  body["json_schema"] = schema;
  EXPECT_EQ(all_models().post("/v1/completions", body).status, 400) << "one of them only";
  body.erase("grammar");
  body["json_schema"] = {{"not", {{"type", "null"}}}};
  EXPECT_EQ(all_models().post("/v1/completions", body).param(), "json_schema");
}

TEST(Api, SamplersOfOtherServersAreTaken) {
  json body = {{"model", "lm"}, {"prompt", "the fox"}, {"max_tokens", 24}, {"temperature", 0}};
  const auto text_of = [&] {
    const Answer answer = all_models().post("/v1/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["choices"][0];
  };
  const std::string plain = text_of()["text"];
  body["no_repeat_ngram_size"] = 1;
  EXPECT_NE(text_of()["text"], plain);
  body.erase("no_repeat_ngram_size");
  body["dry_multiplier"] = 50;
  body["dry_allowed_length"] = 1;
  EXPECT_NE(text_of()["text"], plain);
  body.erase("dry_multiplier");
  body["temperature"] = 1;
  body["top_n_sigma"] = 0.0001;
  EXPECT_EQ(text_of()["text"], plain) << "only the best is near enough";
  body["top_n_sigma"] = 0;
  body["typical_p"] = 0.5;
  body["mirostat"] = 2;
  text_of();
  body["mirostat"] = 1;
  EXPECT_EQ(all_models().post("/v1/completions", body).param(), "mirostat");
  body["mirostat"] = 0;
  body["temperature"] = 0;
  json ids = all_models()
                 .post("/completion", {{"model", "lm"},
                                       {"prompt", "the fox"},
                                       {"n_predict", 5},
                                       {"temperature", 0},
                                       {"return_tokens", true}})
                 .json()["tokens"];
  body["stop_token_ids"] = json::array({ids[0]});  // in braces alone Clang copies
  const json stopped = text_of();
  EXPECT_EQ(stopped["text"], "");
  EXPECT_EQ(stopped["finish_reason"], "stop");
  body["stop_token_ids"] = {-1};
  EXPECT_EQ(all_models().post("/v1/completions", body).param(), "stop_token_ids");
}

TEST(Api, SpeaksLlamaCpp) {
  json body = {{"model", "lm"}, {"prompt", "the fox"}, {"n_predict", 10}, {"temperature", 0}};
  const json whole = all_models().post("/completion", body).json();
  EXPECT_EQ(whole["tokens_predicted"], 10);
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], "limit");
  body["stream"] = true;
  std::string text;
  const auto events = all_models().post("/completion", body).events();
  for (const json& each : events) {
    text += each["content"];
  }
  EXPECT_EQ(text, whole["content"].get<std::string>());
  EXPECT_EQ(events.back()["stop"], true);
  EXPECT_EQ(events.front()["stop"], false);
}

TEST(Api, EmbedsTextsAsNumbersAndAsBase64) {
  json body = {{"model", "encoder"}, {"input", {"the quick fox", "the lazy dog sleeps", "one"}}};
  const json result = all_models().post("/v1/embeddings", body).json();
  ASSERT_EQ(result["data"].size(), 3);
  body["encoding_format"] = "base64";
  const json encoded = all_models().post("/v1/embeddings", body).json();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result["data"][i]["index"], i);
    const auto vector = result["data"][i]["embedding"].get<std::vector<float>>();
    ASSERT_EQ(vector.size(), 32);
    double norm = 0.0;
    for (const float x : vector) {
      norm += static_cast<double>(x) * x;
    }
    EXPECT_NEAR(norm, 1.0, 1e-5);
    const std::string bytes =
        decode_base64(encoded["data"][i]["embedding"].get<std::string>(), "embedding");
    ASSERT_EQ(bytes.size(), vector.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(bytes.data(), vector.data(), bytes.size()), 0);
  }
}

TEST(Api, TokenIdsOfAnotherTokenizerAreNotEmbedded) {
  for (const json& input : {json::array({1, 2, 3}), json::array({json::array({1, 2})})}) {
    const Answer answer =
        all_models().post("/v1/embeddings", {{"model", "encoder"}, {"input", input}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_NE(answer.body.find("check_embedding_ctx_length=False"), std::string::npos);
  }
}

TEST(Api, RanksDocuments) {
  for (const char* model : {"encoder", "classifier"}) {
    for (const char* path : {"/rerank", "/v1/rerank"}) {
      const json result = all_models()
                              .post(path, {{"model", model},
                                           {"query", "the fox"},
                                           {"documents", {"one two three", "the fox", "the dog"}},
                                           {"top_n", 2},
                                           {"return_documents", true}})
                              .json();
      ASSERT_EQ(result["results"].size(), 2) << result;
      EXPECT_GE(result["results"][0]["relevance_score"], result["results"][1]["relevance_score"]);
      if (std::string(model) == "encoder") {
        EXPECT_EQ(result["results"][0]["index"], 1);
        EXPECT_NEAR(result["results"][0]["relevance_score"].get<double>(), 1.0, 1e-5);
        EXPECT_EQ(result["results"][0]["document"]["text"], "the fox");
      }
    }
  }
}

TEST(Api, ClassifiesAndFillsAndTranslates) {
  const json labels =
      all_models()
          .post("/v1/classify", {{"model", "classifier"}, {"input", {"the fox", "dog"}}})
          .json();
  ASSERT_EQ(labels["data"].size(), 2) << labels;
  double total = 0.0;
  for (const json& each : labels["data"][0]["scores"]) {
    total += each["score"].get<double>();
  }
  EXPECT_NEAR(total, 1.0, 1e-9);
  const json filled =
      all_models()
          .post("/v1/fill-mask", {{"model", "masked"}, {"input", "the [MASK] fox"}, {"top_k", 3}})
          .json();
  ASSERT_EQ(filled["data"][0]["masks"][0]["candidates"].size(), 3) << filled;
  EXPECT_EQ(all_models().post("/v1/fill-mask", {{"model", "masked"}, {"input", "no"}}).param(),
            "input");
  json body = {{"model", "translator"}, {"input", {"the fox", "one"}}, {"max_tokens", 8}};
  const json greedy = all_models().post("/v1/translate", body).json();
  ASSERT_EQ(greedy["data"].size(), 2) << greedy;
  body["num_beams"] = 3;
  const Answer beams = all_models().post("/v1/translate", body);
  EXPECT_EQ(beams.status, 200) << beams.body;
  ASSERT_EQ(beams.json()["data"].size(), 2);
}

TEST(Api, RefusesModelsThatAreForSomethingElse) {
  const Answer answer =
      all_models().post("/v1/completions", {{"model", "encoder"}, {"prompt", "x"}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.param(), "model");
  EXPECT_NE(answer.body.find("feature-extraction"), std::string::npos);
  EXPECT_EQ(all_models().post("/v1/completions", {{"prompt", "x"}}).param(), "model");  // which lm?
  EXPECT_EQ(all_models().post("/v1/fill-mask", {{"input", "the [MASK]"}}).status, 200);
}

TEST(Api, TokenizesAndBack) {
  const json ids = all_models()
                       .post("/tokenize", {{"model", "lm"}, {"content", "the fox 안녕"}})
                       .json()["tokens"];
  EXPECT_GT(ids.size(), 2);
  EXPECT_EQ(all_models().post("/detokenize", {{"model", "lm"}, {"tokens", ids}}).json()["content"],
            "the fox 안녕");
  EXPECT_EQ(all_models().post("/detokenize", {{"model", "lm"}, {"tokens", {-1}}}).status, 400);
  EXPECT_EQ(all_models().post("/detokenize", {{"model", "lm"}, {"tokens", {1 << 30}}}).status, 400);
}

TEST(Api, ModelsComeAndGo) {
  ServeOptions options;
  options.models_dir = small_models().string();
  options.idle_unload = 0.3;
  TestServer server({}, options);
  EXPECT_EQ(server.metric("heed_models_loaded"), 0);
  const json body = {{"model", "encoder"}, {"input", "the fox"}};
  const json first = server.post("/v1/embeddings", body).json();
  EXPECT_EQ(server.metric("heed_models_loaded"), 1);
  EXPECT_TRUE(server.metric_becomes("heed_models_loaded", 0));
  EXPECT_EQ(server.post("/v1/embeddings", body).json(), first);
  server.server().reload();
  EXPECT_EQ(server.post("/v1/embeddings", body).json(), first);
}

TEST(Api, AliasesAreNamesToo) {
  ServeOptions options;
  options.aliases = {"*=lm2", "gpt-4=lm"};  // a name comes before "*", whatever their order
  const TestServer server({"lm", "lm2"}, options);
  EXPECT_EQ(server.get("/v1/models/gpt-4").json()["aliases"], json::array({"gpt-4"}));
  for (const char* name : {"gpt-4", "anything"}) {
    const json answer =
        server
            .post("/v1/completions",
                  {{"model", name}, {"prompt", "x"}, {"max_tokens", 8}, {"temperature", 0}})
            .json();
    EXPECT_EQ(answer["model"], name);
    const std::string own = std::string(name) == "gpt-4" ? "lm" : "lm2";
    EXPECT_EQ(answer["choices"],
              server
                  .post("/v1/completions",
                        {{"model", own}, {"prompt", "x"}, {"max_tokens", 8}, {"temperature", 0}})
                  .json()["choices"]);
  }
}

TEST(Api, StoppingDrainsRequestsUnderWay) {
  TestServer server;
  const json body = {{"prompt", "the fox"}, {"max_tokens", 300}};
  auto answer =
      std::async(std::launch::async, [&] { return server.post("/v1/completions", body); });
  ASSERT_TRUE(server.metric_becomes("heed_sequences_active", 1));
  EXPECT_TRUE(server.server().stop(30.0));
  EXPECT_EQ(answer.get().status, 200);
}

}  // namespace
}  // namespace heed::test
