// 32 requests of every kind at once get the bits that each of them gets alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "base/base64.h"
#include "test_media.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

TestServer& all_models() {
  static TestServer server({"lm", "lm2", "chat", "encoder", "classifier", "masked", "translator",
                            "speech", "captioner"});
  return server;
}

/// The parts of an answer that must not change.
json essence(const Answer& answer) {
  json value = answer.json();
  value.erase("id");
  value.erase("created");
  value.erase("timings");
  if (value.contains("usage")) {  // what was shared depends on who was there before
    value["usage"].erase("prompt_tokens_details");
  }
  return value;
}

using Requests = std::vector<std::pair<std::string, json>>;

std::string text_with(const std::string& begin, int count) {
  return begin + std::string(static_cast<size_t>(count), 'x');
}

/// Two completions of two models and two chats, all with a long beginning that others have too.
void add_texts(int i, Requests& all) {
  const std::string shared = "the quick brown fox jumps over the lazy dog . one two three four ";
  const json sampling = {{"max_tokens", 10 + 7 * i},
                         {"temperature", i % 3 == 0 ? 0.0 : 0.9},
                         {"seed", i},
                         {"n", 1 + i % 3}};
  json completion = {
      {"model", i % 2 == 0 ? "lm" : "lm2"}, {"prompt", text_with(shared, i)}, {"logprobs", 2}};
  completion.update(sampling);
  all.push_back({"/v1/completions", completion});
  json chat = {{"model", "chat"},
               {"messages", {{{"role", "user"}, {"content", text_with(shared, 2 * i)}}}},
               {"logprobs", true},
               {"top_logprobs", 2}};
  chat.update(sampling);
  all.push_back({"/v1/chat/completions", chat});
}

void add_vectors(int i, Requests& all) {
  const std::string text = "one two three four five six seven eight nine ten";
  all.push_back(
      {"/v1/embeddings", {{"model", "encoder"}, {"input", {text_with("the fox ", i), text}}}});
  all.push_back({"/rerank",
                 {{"model", i % 2 == 0 ? "encoder" : "classifier"},
                  {"query", text_with("the dog ", i)},
                  {"documents", {text, "the fox", text_with("lazy ", 3 * i)}}}});
}

void add_tasks(int i, Requests& all) {
  all.push_back(
      {"/v1/translate",
       {{"model", "translator"}, {"input", "the dog " + std::to_string(i)}, {"max_tokens", 12}}});
  all.push_back({i % 2 == 0 ? "/v1/classify" : "/v1/fill-mask",
                 {{"model", i % 2 == 0 ? "classifier" : "masked"},
                  {"input", fmt::format("the [MASK] fox {}", i)}}});
}

Requests mixed_requests() {
  Requests all;
  for (int i = 0; i < 5; ++i) {
    add_texts(i, all);
    add_vectors(i, all);
    add_tasks(i, all);
  }
  all.push_back({"/v1/audio/transcriptions",
                 {{"model", "speech"}, {"file", encode_base64(tone())}, {"temperature", 0}}});
  all.push_back({"/v1/caption", {{"model", "captioner"}, {"image", encode_base64(picture())}}});
  return all;
}

TEST(Identity, AnswersAreTheSameBitsInAnyCompany) {
  const auto requests = mixed_requests();
  ASSERT_EQ(requests.size(), 32);
  std::vector<json> serial;
  for (const auto& [path, body] : requests) {
    const Answer answer = all_models().post(path, body);
    ASSERT_EQ(answer.status, 200) << path << answer.body;
    serial.push_back(essence(answer));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<std::future<Answer>> together;
    for (const auto& request : requests) {
      together.push_back(std::async(std::launch::async, [&request] {
        return all_models().post(request.first, request.second);
      }));
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      const Answer answer = together[i].get();
      ASSERT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(essence(answer), serial[i]) << requests[i].first << requests[i].second;
    }
  }
  EXPECT_GT(all_models().metric("heed_cached_prompt_tokens_total"), 0);
}

}  // namespace
}  // namespace heed::test
