// Images, speech, tools, llama.cpp's form, and the attention of a request.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/base64.h"
#include "heed/io.h"
#include "heed/pipelines.h"
#include "serve/tool_calls.h"
#include "support/data.h"
#include "test_media.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

TestServer& server() {
  static TestServer made(
      {"chat", "vision", "captioner", "speech", "encoder", "translator", "typed"});
  return made;
}

TEST(Tasks, ClassifiesImages) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.ppm", std::ios::binary) << picture();
  const ImageClassification pipeline(small_models() / "vision");
  const auto expected = pipeline(folder / "a.ppm");
  for (const std::string& prefix : {std::string(), std::string("data:image/x-portable;base64,")}) {
    const std::string image = prefix + encode_base64(picture());
    const json data = server().post("/v1/classify", {{"image", {image, image}}}).json()["data"];
    ASSERT_EQ(data.size(), 2);
    EXPECT_EQ(data[1]["label"], expected.front().label);
    EXPECT_NEAR(data[0]["score"].get<double>(), expected.front().score, 1e-6);
    EXPECT_EQ(data[0], [&] {
      json same = data[1];
      same["index"] = 0;
      return same;
    }());
  }
  EXPECT_EQ(server().post("/v1/classify", {{"input", "x"}, {"model", "vision"}}).param(), "input");
}

TEST(Tasks, ImagesAreNeverFetchedAndNeverHuge) {
  for (const char* address : {"http://127.0.0.1:1/a.png", "file:///etc/passwd", "ftp://x/y"}) {
    const Answer answer = server().post("/v1/classify", {{"image", address}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_NE(answer.body.find("fetches nothing"), std::string::npos) << answer.body;
  }
  const Answer huge =
      server().post("/v1/caption", {{"image", encode_base64("P6 9000 9000 255\n")}});
  EXPECT_EQ(huge.status, 400);
  EXPECT_NE(huge.body.find("9000 x 9000 pixels"), std::string::npos) << huge.body;
  EXPECT_EQ(server().post("/v1/caption", {{"image", "%%%"}}).param(), "image");
}

TEST(Tasks, DescribesImages) {
  const json body = {{"image", encode_base64(picture())}, {"max_tokens", 6}};
  const json greedy = server().post("/v1/caption", body).json();
  ASSERT_EQ(greedy["data"].size(), 1) << greedy;
  EXPECT_GT(greedy["usage"]["completion_tokens"], 0);
  json beams = body;
  beams["num_beams"] = 3;
  EXPECT_TRUE(server().post("/v1/caption", beams).json()["data"][0]["text"].is_string());
  json stream = body;
  stream["stream"] = true;
  std::string text;
  for (const json& event : server().post("/v1/caption", stream).events()) {
    text += event["text"];
  }
  EXPECT_EQ(text, greedy["data"][0]["text"].get<std::string>());
}

/// A form as OpenAI's clients send it.
Answer post_form(const std::string& path, const std::map<std::string, std::string>& fields) {
  std::string body;
  for (const auto& [name, value] : fields) {
    body += "--xyz\r\nContent-Disposition: form-data; name=\"" + name + "\"";
    body += name == "file" ? "; filename=\"a.wav\"\r\nContent-Type: audio/wav" : "";
    body += "\r\n\r\n" + value + "\r\n";
  }
  return server().post_text(path, body + "--xyz--\r\n",
                            "Content-Type: multipart/form-data; boundary=xyz\r\n");
}

TEST(Tasks, TranscribesForms) {
  const Answer answer =
      post_form("/v1/audio/transcriptions", {{"file", tone()}, {"model", "speech"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string text = answer.json()["text"];
  const json verbose =
      post_form("/v1/audio/transcriptions", {{"file", tone()},
                                             {"model", "speech"},
                                             {"temperature", "0"},
                                             {"response_format", "verbose_json"},
                                             {"timestamp_granularities[]", "segment"}})
          .json();
  EXPECT_EQ(verbose["text"], text);
  EXPECT_NEAR(verbose["duration"].get<double>(), 1.0, 1e-6);
  EXPECT_TRUE(verbose["segments"].is_array());
  EXPECT_EQ(
      post_form("/v1/audio/transcriptions", {{"file", tone()}, {"response_format", "text"}}).body,
      text + "\n");
  // The same as JSON with base64.
  EXPECT_EQ(
      server().post("/v1/audio/transcriptions", {{"file", encode_base64(tone())}}).json()["text"],
      text);
}

TEST(Tasks, BadFormsAndBadSoundAre400) {
  EXPECT_EQ(post_form("/v1/audio/transcriptions", {{"file", "no sound"}}).param(), "file");
  EXPECT_EQ(post_form("/v1/audio/transcriptions", {{"model", "speech"}}).param(), "file");
  EXPECT_EQ(
      post_form("/v1/audio/transcriptions", {{"file", tone()}, {"temperature", "hot"}}).param(),
      "temperature");
  EXPECT_EQ(post_form("/v1/audio/transcriptions", {{"file", tone()}, {"temperature", "7"}}).param(),
            "temperature");
  for (const char* body :
       {"", "--xyz", "--xyz\r\n\r\n", "--xyz\r\nX: y\r\n\r\nz\r\n--xyz--", "--abc--"}) {
    const Answer answer = server().post_text("/v1/audio/transcriptions", body,
                                             "Content-Type: multipart/form-data; boundary=xyz\r\n");
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_NE(answer.body.find("the form is malformed"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(
      server().post_text("/v1/audio/transcriptions", "x", "Content-Type: text/plain\r\n").status,
      415);
  EXPECT_EQ(server()
                .post_text("/v1/completions", "--xyz--",
                           "Content-Type: multipart/form-data; boundary=xyz\r\n")
                .status,
            415);
}

TEST(Tasks, FindsCallsInTheFormsOfCommonTemplates) {
  const std::vector<std::string> names{"weather", "time"};
  const auto calls = [&](std::string_view text) {
    std::string all;
    const serve::ToolAnswer answer = serve::parse_tool_calls(text, names);
    for (const serve::ToolCall& call : answer.calls) {
      all += call.name + call.arguments + ";";
    }
    return all + "|" + answer.content;
  };
  EXPECT_EQ(calls("I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"b\": 1, \"a\": "
                  "2}}\n</tool_call>"),
            "weather{\"b\":1,\"a\":2};|I look.");
  EXPECT_EQ(calls("<tool_call>{\"name\":\"time\",\"arguments\":{}}</"
                  "tool_call><tool_call>{\"name\":\"weather\",\"arguments\":\"{}\"}"),
            "time{};weather{};|");
  EXPECT_EQ(calls("[TOOL_CALLS] [{\"name\": \"time\", \"arguments\": {\"z\": \"Seoul\"}}]"),
            "time{\"z\":\"Seoul\"};|");
  EXPECT_EQ(calls("{\"name\": \"weather\", \"parameters\": {\"x\": []}}"), "weather{\"x\":[]};|");
  EXPECT_EQ(calls("<function=time>{\"x\": 1}</function>"), "time{\"x\":1};|");
  // Not among the tools, not JSON, or only talked about: content as it is.
  for (const char* text : {"{\"name\": \"rm\", \"arguments\": {}}", "<tool_call>{oops</tool_call>",
                           "say {\"name\": \"time\"}", ""}) {
    EXPECT_EQ(calls(text), std::string("|") + text);
  }
  EXPECT_EQ(serve::shown_before_call("Hello <tool"), 6);
  EXPECT_EQ(serve::shown_before_call("Hello there"), 11);
  EXPECT_EQ(serve::shown_before_call("  {\"na"), 0);
}

TEST(Tasks, ARequiredToolIsCalled) {
  const json tool = {{"type", "function"},
                     {"function",
                      {{"name", "light"},
                       {"parameters",
                        {{"type", "object"},
                         {"properties", {{"on", {{"type", "boolean"}}}}},
                         {"required", {"on"}},
                         {"additionalProperties", false}}}}}};
  json body = {{"model", "chat"},   {"messages", {{{"role", "user"}, {"content", "the fox"}}}},
               {"tools", {tool}},   {"tool_choice", "required"},
               {"max_tokens", 200}, {"seed", 3}};
  const json choice = server().post("/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
  EXPECT_TRUE(choice["message"]["content"].is_null());
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1);
  const json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "light");
  EXPECT_TRUE(json::parse(call["function"]["arguments"].get<std::string>())["on"].is_boolean());
  body["stream"] = true;
  std::string arguments, reason;
  for (const json& event : server().post("/v1/chat/completions", body).events()) {
    const json& delta = event["choices"][0]["delta"];
    EXPECT_FALSE(delta.contains("content") && delta["content"].is_string());
    if (delta.contains("tool_calls")) {
      arguments += delta["tool_calls"][0]["function"]["arguments"];
    }
    if (!event["choices"][0]["finish_reason"].is_null()) {
      reason = event["choices"][0]["finish_reason"];
    }
  }
  EXPECT_EQ(arguments, call["function"]["arguments"].get<std::string>());
  EXPECT_EQ(reason, "tool_calls");
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "dark"}}}};
  EXPECT_EQ(server().post("/v1/chat/completions", body).param(), "tool_choice");
  body["tool_choice"] = "maybe";
  EXPECT_EQ(server().post("/v1/chat/completions", body).param(), "tool_choice");
}

TEST(Tasks, PartsOfTextReachEveryTemplate) {
  const json parts = {{{"type", "text"}, {"text", " the"}}, {{"type", "text"}, {"text", "fox "}}};
  const auto prompt = [&](const char* model) {
    return server()
        .post("/apply-template",
              {{"model", model}, {"messages", {{{"role", "user"}, {"content", parts}}}}})
        .json()["prompt"];
  };
  EXPECT_EQ(prompt("chat"), "<user> the\nfox <assistant>");
  EXPECT_EQ(prompt("typed"), "<user> thefox <assistant>");
}

TEST(Tasks, TheLastMessageOfTheAssistantIsContinued) {
  json body = {{"model", "chat"},
               {"messages", {{{"role", "user"}, {"content", "a"}}}},
               {"verbose", true},
               {"max_tokens", 1}};
  const auto prompt = [&] {
    return server().post("/v1/chat/completions", body).json()["__verbose"]["prompt"];
  };
  EXPECT_EQ(prompt(), "<user>a<assistant>");
  body["messages"].push_back({{"role", "assistant"}, {"content", "the"}});
  EXPECT_EQ(prompt(), "<user>a<assistant>the");
  body["messages"].push_back({{"role", "assistant"}, {"content", "fox"}});
  EXPECT_EQ(server().post("/v1/chat/completions", body).param(), "messages");
  EXPECT_EQ(server()
                .post("/chat/completions/input_tokens",
                      {{"model", "chat"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}})
                .json()["input_tokens"],
            server()
                .post("/tokenize", {{"model", "chat"}, {"content", "<user>a<assistant>"}})
                .json()["tokens"]
                .size());
}

TEST(Tasks, SpeaksLlamaCppsFields) {
  const json one = {{"model", "chat"},
                    {"prompt", "the fox"},
                    {"n_predict", 4},
                    {"temperature", 0},
                    {"n_probs", 3}};
  const json whole = server().post("/completion", one).json();
  EXPECT_EQ(whole["completion_probabilities"].size(), 4);
  EXPECT_EQ(whole["completion_probabilities"][0]["top_logprobs"].size(), 3);
  EXPECT_EQ(whole["timings"]["predicted_n"], 4);
  EXPECT_EQ(whole["tokens"], json::array());
  EXPECT_EQ(whole["generation_settings"]["n_predict"], 4);
  const json again = server().post("/completion", one).json();
  EXPECT_EQ(again["content"], whole["content"]);
  EXPECT_EQ(again["timings"]["prompt_n"].get<int>() + again["timings"]["cache_n"].get<int>(),
            again["tokens_evaluated"].get<int>());
  json chosen = one;
  chosen["response_fields"] = {"content", "generation_settings/n_predict", "nothing"};
  const json few = server().post("/completion", chosen).json();
  EXPECT_EQ(few, json({{"content", whole["content"]}, {"generation_settings/n_predict", 4}}));
  const json ids =
      server().post("/tokenize", {{"model", "chat"}, {"content", "the fox"}}).json()["tokens"];
  json mixed = one;
  mixed["prompt"] = {ids, "the fox", {{"prompt_string", "the fox"}}};
  const json list = server().post("/completion", mixed).json();
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list[0]["content"], whole["content"]);
  EXPECT_EQ(list[2]["content"], whole["content"]);
  mixed["prompt"] = json::array({ids[0], "the fox"});
  EXPECT_EQ(server().post("/completion", mixed).status, 200);
  json biased = one;
  biased["logit_bias"] =
      json::array({json::array({whole["completion_probabilities"][0]["id"], false})});
  EXPECT_NE(server().post("/completion", biased).json()["completion_probabilities"][0]["id"],
            whole["completion_probabilities"][0]["id"]);
  const json long_prompt =
      server()
          .post("/completion", {{"model", "chat"}, {"prompt", std::vector<int>(3000, 5)}})
          .json();
  EXPECT_EQ(long_prompt["error"]["type"], "exceed_context_size_error");
  EXPECT_EQ(long_prompt["error"]["n_prompt_tokens"], 3000);
  EXPECT_EQ(long_prompt["error"]["n_ctx"], 2048);
}

TEST(Tasks, RanksAsTextEmbeddingsInferenceDoes) {
  const json list = server()
                        .post("/rerank", {{"model", "encoder"},
                                          {"query", "the fox"},
                                          {"texts", {"one two", "the fox runs"}},
                                          {"return_text", true}})
                        .json();
  ASSERT_EQ(list.size(), 2);
  EXPECT_GE(list[0]["score"], list[1]["score"]);
  EXPECT_TRUE(list[0]["text"].is_string());
}

/// Numbers of a tensor of the explorer's protocol.
std::vector<float> floats_of(const json& tensor) {
  const std::string bytes = decode_base64(tensor["data"].get<std::string>(), "tensor");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(Tasks, TheAttentionOfARequestCanBeLookedAt) {
  const json done =
      server()
          .post("/v1/completions",
                {{"model", "chat"}, {"prompt", "the fox"}, {"max_tokens", 5}, {"temperature", 0}})
          .json();
  const json trace = server().post("/heed/v1/trace", {{"request", done["id"]}}).json();
  const size_t tokens = done["usage"]["total_tokens"];
  ASSERT_TRUE(trace.contains("sides")) << trace;
  EXPECT_EQ(trace["sides"]["source"].size(), tokens);
  const json tile =
      server().post("/heed/v1/tile", {{"request", done["id"]}, {"layer", 1}, {"head", 2}}).json();
  const std::vector<float> weights = floats_of(tile["values"]);
  ASSERT_EQ(weights.size(), tokens * tokens);
  for (size_t row = 0; row < tokens; ++row) {
    double sum = 0;
    for (size_t column = 0; column < tokens; ++column) {
      sum += weights[row * tokens + column];
      EXPECT_TRUE(column <= row || weights[row * tokens + column] == 0.0F);
    }
    EXPECT_NEAR(sum, 1.0, 1e-5);
  }
  for (const char* what : {"contribution", "rollout"}) {  // of all layers, as the page shows them
    const json whole =
        server().post("/heed/v1/tile", {{"request", done["id"]}, {"what", what}}).json();
    EXPECT_EQ(floats_of(whole["values"]).size(), tokens * tokens) << what;
  }
  const json level = {{"request", done["id"]}, {"level", 25}};
  const Answer beyond = server().post("/heed/v1/tile", level);
  EXPECT_EQ(beyond.param(), "level");
  EXPECT_NE(beyond.body.find("24"), std::string::npos) << beyond.body;  // the bound of the table
  EXPECT_EQ(server().post("/heed/v1/trace", {{"request", "nothing"}}).status, 404);
  EXPECT_EQ(server().post("/heed/v1/tile", {{"request", done["id"]}, {"layer", 9}}).status, 404);
  const json translated =
      server().post("/v1/translate", {{"input", "the fox"}, {"max_tokens", 4}}).json();
  const json both = server().post("/heed/v1/trace", {{"request", translated["id"]}}).json();
  EXPECT_EQ(both["attentions"].size(), 3) << both;
}

TEST(Tasks, AttentionIsThereWhileARequestStreams) {
  RawConnection reader(server().port());
  reader.send(post_request(
      "/v1/completions",
      json({{"model", "chat"}, {"prompt", "the fox"}, {"max_tokens", 1500}, {"stream", true}})
          .dump()));
  const std::string begun = reader.receive("\n\n");
  const size_t at = begun.find("cmpl-");
  ASSERT_NE(at, std::string::npos) << begun;
  const std::string id = begun.substr(at, begun.find('"', at) - at);
  const json trace = server().post("/heed/v1/trace", {{"request", id}}).json();
  EXPECT_GT(trace["sides"]["source"].size(), 2) << trace;
  EXPECT_LT(trace["sides"]["source"].size(), 1500);
}

}  // namespace
}  // namespace heed::test
