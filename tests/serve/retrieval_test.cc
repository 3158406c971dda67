// The routes that read a search index, and what they share the server with.
#include "heed/retrieval.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <fstream>

#include "base/base64.h"
#include "support/data.h"
#include "test_media.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

/// Serves an index of two documents beside models.
struct IndexServer {
  TemporaryFolder folder;
  TestServer server;

  explicit IndexServer(const std::vector<std::string>& models = {"chat", "translator"})
      : server(models, with_index()) {}

 private:
  ServeOptions with_index() const {
    std::ofstream(folder / "a.txt") << "the quick brown fox jumps over the lazy dog .";
    std::ofstream(folder / "b.txt") << "one two three four five six seven eight nine ten .";
    IndexOptions making;
    making.model = (small_models() / "encoder").string();
    build_index({(folder / "a.txt").string(), (folder / "b.txt").string()}, folder / "docs.heed",
                making);
    ServeOptions options;
    options.indexes = {"docs=" + (folder / "docs.heed").string()};
    return options;
  }
};

TEST(Retrieval, SearchesAndAsksAnIndex) {
  const IndexServer index;
  const TestServer& served = index.server;
  const json found = served.post("/v1/search", {{"query", "seven"}, {"mode", "lexical"}}).json();
  ASSERT_EQ(found["results"].size(), 1) << found;
  EXPECT_NE(found["results"][0]["source"].get<std::string>().find("b.txt"), std::string::npos);
  const json answer =
      served
          .post("/v1/ask",
                {{"model", "chat"}, {"question", "seven"}, {"max_tokens", 3}, {"attention", true}})
          .json();
  EXPECT_EQ(answer["sources"].size(), 2) << answer;
  EXPECT_GT(answer["sources"][0]["attention"], 0.0);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3);
  json question = {{"model", "translator"},
                   {"question", "seven"},
                   {"max_tokens", 3},
                   {"attention", true},
                   {"reader", "fid"}};
  const json fused = served.post("/v1/ask", question).json();
  ASSERT_EQ(fused["sources"].size(), 2) << fused;
  EXPECT_GT(fused["sources"][0]["attention"], 0.0);
  question["model"] = "chat";  // a decoder reads no passages by themselves
  EXPECT_EQ(served.post("/v1/ask", question).status, 400);
  EXPECT_EQ(served.post("/v1/search", {{"query", "x"}, {"index", "none"}}).status, 404);
  EXPECT_EQ(TestServer().post("/v1/search", {{"query", "x"}}).status, 404);
}

/// What goes wrong before the first text has the same status with and without a stream.
TEST(Retrieval, AStreamBeginsWithItsFirstText) {
  const IndexServer index;
  const TestServer& served = index.server;
  for (const bool stream : {false, true}) {
    json body = {{"model", "chat"}, {"question", "seven"}, {"max_tokens", 4096}};
    body["stream"] = stream;
    const Answer long_answer = served.post("/v1/ask", body);
    EXPECT_EQ(long_answer.status, 400) << long_answer.body;
    EXPECT_NE(long_answer.body.find("an answer of up to 4096 tokens"), std::string::npos)
        << long_answer.body;
    body["max_tokens"] = 3;
    body["index"] = "none";
    EXPECT_EQ(served.post("/v1/ask", body).status, 404);
  }
  const json question = {
      {"model", "chat"}, {"question", "seven"}, {"max_tokens", 6}, {"stream", true}};
  const Answer answer = served.post("/v1/ask", question);
  const std::vector<json> events = answer.events();
  ASSERT_GE(events.size(), 2) << answer.body;
  std::string text;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    text += events[i]["text"];
  }
  EXPECT_EQ(events.back()["answer"], text);
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

/// Whether nothing has come from the server yet.
bool is_silent(const RawConnection& connection) {
  char byte = 0;
  return recv(connection.descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

TEST(Retrieval, SearchesDoNotWaitForSpeech) {
  const IndexServer index({"chat", "speech"});
  const TestServer& served = index.server;
  const std::string recording =
      json({{"model", "speech"}, {"file", encode_base64(tone(300))}}).dump();
  bool overtaken = false;
  for (int attempt = 0; attempt < 5 && !overtaken; ++attempt) {
    RawConnection speech(served.port());
    speech.send(post_request("/v1/audio/transcriptions", recording));
    ASSERT_TRUE(served.metric_becomes("heed_requests_in_flight", 1));
    const json query = {{"query", "seven"}, {"mode", "lexical"}};
    EXPECT_EQ(served.post("/v1/search", query).status, 200);
    overtaken = is_silent(speech);
    speech.close();  // the rest of the recording is not transcribed
    EXPECT_TRUE(served.metric_becomes("heed_requests_in_flight", 0));
  }
  EXPECT_TRUE(overtaken);
}

}  // namespace
}  // namespace heed::test
