// FAULTS 45 to 51, 56, 57, 60 and 87: what clients do wrong or to harm, below the API.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

int status_of(const TestServer& server, const std::string& bytes, double seconds = 10.0) {
  RawConnection connection(server.port());
  connection.send(bytes);
  return parse_answer(connection.receive("", seconds)).status;
}

TEST(HttpLimits, BadJsonAndBadTypesAre400) {
  const TestServer server;
  for (const char* body : {"", "{", "[]", "7", "{\"prompt\":}",
                           "{\"prompt\":\"a\",\"prompt\":\"b\"}", "{\"prompt\":\"\xff\"}", "nul\0l",
                           "{\"prompt\":[]}", "{\"prompt\":{}}", "{\"prompt\":\"x\"} trailing"}) {
    const Answer answer = server.post_text("/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << body << "\n" << answer.body;
    EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error") << body;
  }
  const std::string deep = "{\"prompt\":" + std::string(100000, '[') + "}";
  EXPECT_EQ(server.post_text("/v1/completions", deep).status, 400);
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(HttpLimits, LargeBodiesAre413) {
  ServeOptions options;
  options.max_body_bytes = 4096;
  const TestServer server({"lm"}, options);
  EXPECT_EQ(server.post_text("/v1/completions", std::string(5000, 'x')).status, 413);
  EXPECT_EQ(status_of(server,
                      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                      "Content-Length: 99999999999999\r\n\r\n"),
            413);
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(HttpLimits, ChunksAreCountedAndChecked) {
  ServeOptions options;
  options.max_body_bytes = 4096;
  const TestServer server({"lm"}, options);
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string endless = head;
  for (int i = 0; i < 10; ++i) {
    endless += "400\r\n" + std::string(1024, ' ') + "\r\n";
  }
  EXPECT_EQ(status_of(server, endless), 413);
  EXPECT_EQ(status_of(server, head + "zz\r\nhello\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of(server, head + "ffffffffffffffffffff\r\nx"), 400);
  EXPECT_EQ(status_of(server, head + "-5\r\nhello\r\n0\r\n\r\n"), 400);
  const std::string body = R"({"prompt":"the fox","max_tokens":1})";
  EXPECT_EQ(status_of(server, head + fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body)),
            200);
}

TEST(HttpLimits, AmbiguousFramingIs400AndCloses) {
  const TestServer server;
  for (const char* fields :
       {"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n", "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Content-Length: 2, 2\r\n", "Content-Length: -2\r\n", "Content-Length: +2\r\n",
        "Content-Length: 0x2\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n", "Host: other\r\nContent-Length: 2\r\n"}) {
    RawConnection connection(server.port());
    connection.send(std::string("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Type: application/json\r\n") +
                    fields + "\r\n{}");
    const Answer answer = parse_answer(connection.receive());  // until the server closes
    EXPECT_EQ(answer.status, 400) << fields;
    EXPECT_EQ(answer.fields.at("connection"), "close") << fields;
  }
}

TEST(HttpLimits, LongHeadersAndTargetsAreRefused) {
  const TestServer server;
  EXPECT_EQ(status_of(server, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: " +
                                  std::string(100'000, 'x') + "\r\n\r\n"),
            431);
  std::string many = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 5000; ++i) {
    many += fmt::format("X-{}: y\r\n", i);
  }
  EXPECT_EQ(status_of(server, many + "\r\n"), 431);
  EXPECT_EQ(status_of(server, "GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n"), 414);
  EXPECT_EQ(status_of(server,
                      "GET /" + std::string(10'000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            414);
  EXPECT_EQ(status_of(server, "GET /health HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(status_of(server, "NONSENSE\r\n\r\n"), 400);
}

TEST(HttpLimits, MalformedRequestsAre400InOurWords) {
  const TestServer server;
  const auto answer = [&](const std::string& bytes) {
    RawConnection connection(server.port());
    connection.send(bytes);
    return parse_answer(connection.receive());
  };
  const std::string host = "Host: localhost\r\n";
  for (const char* version : {"HTTP/2.0", "HTTP/1.2", "HTTP/0.9"}) {
    EXPECT_EQ(answer(fmt::format("GET /health {}\r\n{}\r\n", version, host)).status, 505);
  }
  const std::pair<std::string, const char*> malformed[] = {
      {"GET /health HTTP/1.1\nHost: localhost\n\n", "first line"},
      {"GET /hea lth HTTP/1.1\r\n" + host + "\r\n", "first line"},
      {"GET /hea lth HTTP/2.0\r\n" + host + "\r\n", "first line"},
      {"GET /health http/1.1\r\n" + host + "\r\n", "first line"},
      {"GET /health HTTP/11\r\n" + host + "\r\n", "first line"},
      {"GET  /health HTTP/1.1\r\n" + host + "\r\n", "first line"},
      {"GET /health HTTP/1.1\r\n" + host + "X y: z\r\n\r\n", "a header's name"},
      {"GET /health HTTP/1.1\r\n" + host +
           "X: a\x01"
           "b\r\n\r\n",
       "a header's value"},
      {"POST /v1/completions HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
       "a chunk of its body"}};
  for (const auto& [bytes, part] : malformed) {
    const Answer refused = answer(bytes);
    EXPECT_EQ(refused.status, 400) << bytes;
    EXPECT_NE(refused.body.find(part), std::string::npos) << bytes << refused.body;
    EXPECT_EQ(refused.body.find("bad "), std::string::npos) << bytes << refused.body;
  }
}

/// RFC 9112, 3.2.2: a server takes them, and their authority stands above Host.
TEST(HttpLimits, TargetsWithAnAuthorityAreTaken) {
  const TestServer server;
  const auto status = [&](const std::string& target, const std::string& host) {
    return status_of(server, fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                                         target, host));
  };
  EXPECT_EQ(status("http://localhost/health", "localhost"), 200);
  EXPECT_EQ(status("HTTPS://LOCALHOST:8080/v1/models?x=y", "evil.example"), 200);
  EXPECT_EQ(status("http://localhost", "localhost"), 200);
  EXPECT_EQ(status("http://localhost?x", "localhost"), 200);
  EXPECT_EQ(status("http://evil.example/health", "localhost"), 403);
  EXPECT_EQ(status("http://localhost@evil.example/health", "localhost"), 403);
  EXPECT_EQ(status("http:///health", "localhost"), 403);
  EXPECT_EQ(status("http://localhost/nothing", "localhost"), 404);
  EXPECT_EQ(status("ftp://localhost/health", "localhost"), 400);
  EXPECT_EQ(status("localhost/health", "localhost"), 400);
}

TEST(HttpLimits, SlowHeadersAndBodiesMeetATotalDeadline) {
  ServeOptions options;
  options.header_timeout = 0.5;
  options.body_timeout = 0.5;
  const TestServer server({"lm"}, options);
  RawConnection slow_header(server.port()), slow_body(server.port()), silent(server.port());
  slow_body.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n");
  slow_header.send("GET /health HTTP/1.1\r\n");
  const auto start = std::chrono::steady_clock::now();
  bool header_open = true, body_open = true;
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(60) &&
         (header_open || body_open)) {
    header_open = header_open && slow_header.send("X") && !slow_header.closed_within(0.03);
    body_open = body_open && slow_body.send("x") && !slow_body.closed_within(0.03);
    EXPECT_EQ(server.get("/health").status, 200);  // others are not affected
  }
  EXPECT_FALSE(header_open);
  EXPECT_FALSE(body_open);
  EXPECT_TRUE(silent.closed_within(60.0));
}

TEST(HttpLimits, ASlowReaderIsCancelledAndItsSlotIsFreed) {
  ServeOptions options;
  options.slots = 1;
  const TestServer server({"lm"}, options);
  RawConnection slow(server.port(), 4096);
  const json body = {{"prompt", "the fox"}, {"max_tokens", 2000}, {"n", 100},
                     {"stream", true},      {"logprobs", 20},     {"seed", 1}};
  slow.send(post_request("/v1/completions", body.dump()));
  ASSERT_TRUE(server.metric_becomes("heed_requests_cancelled_total", 1, 120.0));
  EXPECT_TRUE(server.metric_becomes("heed_sequences_active", 0));
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}).status, 200);
}

TEST(HttpLimits, ADisconnectStopsTheGeneration) {
  const TestServer server;
  for (const bool stream : {true, false}) {
    const double before = server.metric("heed_generated_tokens_total");
    {
      RawConnection client(server.port());
      const json body = {{"prompt", "the fox"}, {"max_tokens", 2000}, {"stream", stream}};
      client.send(post_request("/v1/completions", body.dump()));
      ASSERT_TRUE(server.metric_becomes("heed_sequences_active", 1));
    }
    EXPECT_TRUE(server.metric_becomes("heed_sequences_active", 0));
    EXPECT_LT(server.metric("heed_generated_tokens_total") - before, 2000) << stream;
  }
  EXPECT_TRUE(server.metric_becomes("heed_requests_in_flight", 0));
}

TEST(HttpLimits, AFullQueueIs429WithRetryAfter) {
  ServeOptions options;
  options.queue = 2;
  options.slots = 1;
  const TestServer server({"lm"}, options);
  const json body = {{"prompt", "the fox"}, {"max_tokens", 2000}, {"stream", true}};
  RawConnection first(server.port()), second(server.port());
  first.send(post_request("/v1/completions", body.dump()));
  second.send(post_request("/v1/completions", body.dump()));
  ASSERT_TRUE(server.metric_becomes("heed_requests_in_flight", 2));
  const Answer answer = server.post("/v1/completions", body);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.fields.at("retry-after"), "1");
  EXPECT_EQ(answer.json()["error"]["code"], "queue_full");
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(HttpLimits, PathsLeadNowhereElse) {
  const TestServer server;
  for (const char* path : {"/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd",
                           "/v1/models/..", "/v1/models/%2e%2e", "/v1/models/%00", "/%00", "/a%00b",
                           "/%", "/%zz", "/v1//models", "/v1/models/..%2flm", "/static/../x"}) {
    EXPECT_EQ(server.get(path).status, 404) << path;
  }
  const std::vector<std::string> models = {
      "..", "../lm", "/etc/passwd", std::string("lm\0", 3), "%2e%2e", "nothing"};
  for (const std::string& model : models) {
    const Answer answer =
        server.post("/v1/completions", {{"model", model}, {"prompt", "x"}, {"max_tokens", 1}});
    EXPECT_EQ(answer.status, 404) << model;
  }
  const std::string nul = R"({"model":"lm\u0000","prompt":"x"})";
  EXPECT_EQ(server.post_text("/v1/completions", nul).status, 404);
}

TEST(HttpLimits, KeepAliveAndPipelinedRequestsAreAnsweredInOrder) {
  const TestServer server;
  RawConnection connection(server.port());
  std::string requests;
  for (int i = 0; i < 5; ++i) {
    requests += "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    requests += "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  connection.send(requests +
                  "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = connection.receive();
  std::vector<std::string> statuses;
  for (size_t at = all.find("HTTP/1.1 "); at != std::string::npos;
       at = all.find("HTTP/1.1 ", at + 1)) {
    statuses.push_back(all.substr(at + 9, 3));
  }
  const std::vector<std::string> expected{"200", "404", "200", "404", "200", "404",
                                          "200", "404", "200", "404", "200"};
  EXPECT_EQ(statuses, expected);
}

TEST(HttpLimits, HeadOptionsAndExpectWork) {
  const TestServer server;
  RawConnection connection(server.port());
  connection.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const Answer head = parse_answer(connection.receive());
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  RawConnection patient(server.port());
  const std::string body = R"({"prompt":"a","max_tokens":1})";
  patient.send(
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                  "Content-Type: application/json\r\nConnection: close\r\n"
                  "Content-Length: {}\r\n\r\n",
                  body.size()));
  EXPECT_EQ(patient.receive("\r\n\r\n").substr(0, 12), "HTTP/1.1 100");
  patient.send(body);
  EXPECT_EQ(parse_answer(patient.receive()).status, 200);
  RawConnection wrong(server.port());
  wrong.send("DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const Answer refused = parse_answer(wrong.receive());
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.fields.at("allow"), "GET");
}

TEST(HttpLimits, ManyIdleConnectionsGiveWay) {
  ServeOptions options;
  options.max_connections = 8;
  const TestServer server({"lm"}, options);
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(std::make_unique<RawConnection>(server.port()));
    idle.back()->send("GET /health HTTP/1.1\r\n");
  }
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_GE(server.metric("heed_connections_evicted_total"), 30);
}

TEST(HttpLimits, TheAcceptLoopSurvivesWithoutFileDescriptors) {
  const TestServer server;
  RawConnection before(server.port());
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit small = limit;
  small.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &small);
  std::vector<std::unique_ptr<RawConnection>> clients;
  for (int i = 0; i < 300; ++i) {  // ours run out, too; the server's come from the same table
    clients.push_back(std::make_unique<RawConnection>(server.port()));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  clients.clear();
  setrlimit(RLIMIT_NOFILE, &limit);
  bool answered = false;
  for (int i = 0; i < 100 && !answered; ++i) {
    answered = server.get("/health").status == 200;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(answered);
  EXPECT_GE(server.metric("heed_accept_failures_total"), 1);
}

}  // namespace
}  // namespace heed::test
