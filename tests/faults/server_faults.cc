// Fault table, lines 45 to 63, 86 and 87: the server, as a process of its own.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "faults/server_process.h"
#include "serve/routes.h"
#include "support/budget.h"

namespace heed::test {
namespace {

constexpr const char* kCompletions = "/v1/completions";

/// The server that most lines share.
const ServerProcess& shared() {
  static const ServerProcess server;
  return server;
}

std::string completion(const std::string& fields) {
  return R"({"model":"lm","prompt":"the fox",)" + fields + "}";
}

void expect_status(Bench& bench, int status, int wanted, const std::string& what) {
  bench.expect(status == wanted, fmt::format("{}: {} instead of {}", what, status, wanted));
}

/// Whether the shared server still answers, after all that.
void still_there(Bench& bench) {
  expect_status(bench, shared().get_status("/health"), 200, "the server goes on");
}

void refused_bodies(Bench& bench, const std::vector<std::string>& bodies) {
  for (const std::string& body : bodies) {
    expect_status(bench, shared().post_status(kCompletions, body), 400, body.substr(0, 60));
  }
  still_there(bench);
}

/// 400 with an error that names the field.
void refused_field(Bench& bench, const std::string& field, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const std::string fields = fmt::format(R"("{}":{})", field, value);
    const std::string answer = shared().post(kCompletions, completion(fields));
    bench.expect(status_of(answer) == 400 &&
                     answer.find(fmt::format(R"("param":"{}")", field)) != std::string::npos,
                 fields + ": " + answer.substr(0, 400));
  }
  still_there(bench);
}

void bad_json(Bench& bench) {
  refused_bodies(bench, {"", "{", "[]", "{\"prompt\":3.5}", "{\"prompt\":null}", "nonsense",
                         completion("\"max_tokens\":\"x\""), completion("\"stream\":1"),
                         "{\"prompt\":\"a\"}x", "{\"prompt\":\"\xff\"}"});
  expect_status(bench, shared().post_status("/v1/chat/completions", R"({"messages":[]})"), 400,
                "empty messages");
  expect_status(bench, shared().post_status("/v1/chat/completions", R"({"messages":[{"role":1}]})"),
                400, "a role that is a number");
}

void large_body(Bench& bench) {
  const ServerProcess server({"--max-body", "4096"});
  const int64_t before = server.resident_bytes();
  expect_status(bench,
                server.status("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                              "application/json\r\nContent-Length: 1000000000000\r\n\r\nx"),
                413, "a body of a terabyte");
  expect_status(bench, server.post_status(kCompletions, std::string(5000, ' ')), 413,
                "more than --max-body");
  bench.expect(server.resident_bytes() < before + (int64_t{32} << 20), "memory stays small");
}

void chunks(Bench& bench) {
  const ServerProcess server({"--max-body", "65536"});
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* size : {"zz\r\nabc", "-1\r\nabc", "ffffffffffffffffff\r\na", "\r\n\r\n"}) {
    expect_status(bench, server.status(head + size), 400, fmt::format("chunk size {}", size));
  }
  std::string endless = head;
  for (int i = 0; i < 100; ++i) {
    endless += "1000\r\n" + std::string(4096, 'x') + "\r\n";
  }
  const int64_t before = server.resident_bytes();
  const int status = server.status(endless);
  bench.expect(status == 413 || status == 400, fmt::format("endless chunks: {}", status));
  bench.expect(server.resident_bytes() < before + (int64_t{16} << 20), "memory stays small");
  expect_status(bench, server.get_status("/health"), 200, "the server goes on");
}

void ambiguous_framing(Bench& bench) {
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  for (const char* fields :
       {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n", "Content-Length: 4, 4\r\n",
        "Content-Length: +4\r\n", "Content-Length: -4\r\n"}) {
    // What follows must not be taken for a second request.
    const std::string answer = shared().exchange(
        head + fields + "\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 3.0);
    expect_status(bench, status_of(answer), 400, fields);
    bench.expect(answer.find("HTTP/1.1 ", 9) == std::string::npos, "and the connection is closed");
  }
}

void slow_clients(Bench& bench) {
  const ServerProcess server({"--header-timeout", "0.5", "--body-timeout", "0.5"});
  const int header = open_connection(server.port()), body = open_connection(server.port());
  send_all(header, "GET /health HTTP/1.1\r\n");
  send_all(body,
           "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: 1000\r\n\r\n");
  bool header_open = true, body_open = true, others = true;
  for (int i = 0; i < 100 && (header_open || body_open); ++i) {
    char block[256];
    const auto open = [&](int connection) {
      return send_all(connection, "x") && recv(connection, block, sizeof(block), MSG_DONTWAIT) != 0;
    };
    header_open = header_open && open(header);
    body_open = body_open && open(body);
    others = others && server.get_status("/health") == 200;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  bench.expect(!header_open && !body_open, "a byte now and then does not keep a connection");
  bench.expect(others, "others are answered meanwhile");
  close(header);
  close(body);
}

/// Starts a long stream and returns its connection.
int long_stream(const ServerProcess& server, int receive_buffer) {
  const int connection = open_connection(server.port());
  if (receive_buffer > 0) {
    setsockopt(connection, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  send_all(
      connection,
      post_text(
          kCompletions,
          completion(R"("max_tokens":480,"ignore_eos":true,"n":100,"stream":true,"logprobs":20)")));
  return connection;
}

void slow_reader(Bench& bench) {
  const ServerProcess server({"--slots", "2"});
  const int connection = long_stream(server, 4096);
  bench.expect(server.metric_becomes("heed_requests_cancelled_total", 1, 60),
               "a stream that nobody reads is cancelled");
  bench.expect(server.metric_becomes("heed_sequences_active", 0, 60), "its slots are free");
  expect_status(bench, server.post_status(kCompletions, completion("\"max_tokens\":1")), 200,
                "the next request");
  close(connection);
}

void disconnect(Bench& bench) {
  const ServerProcess server;
  const int connection = long_stream(server, 0);
  bool active = false;
  for (int i = 0; i < 500 && !active; ++i) {
    active = server.metric("heed_sequences_active") > 0;
  }
  bench.expect(active, "a generation began");
  close(connection);
  bench.expect(server.metric_becomes("heed_requests_cancelled_total", 1, 60), "it is cancelled");
  bench.expect(server.metric_becomes("heed_sequences_active", 0, 60), "it stops");
  const double tokens = server.metric("heed_generated_tokens_total");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  bench.expect(server.metric("heed_generated_tokens_total") == tokens, "and stays so");
}

void full_queue(Bench& bench) {
  const ServerProcess server({"--queue", "1", "--slots", "1"});
  const int connection = long_stream(server, 0);
  bool busy = false;
  for (int i = 0; i < 500 && !busy; ++i) {
    busy = server.metric("heed_requests_in_flight") >= 1;
  }
  const std::string answer = server.post(kCompletions, completion("\"max_tokens\":1"));
  const int status = status_of(answer);
  bench.expect(busy && (status == 429 || status == 503), fmt::format("queue full: {}", status));
  std::string lower = answer;
  std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
  bench.expect(lower.find("retry-after:") != std::string::npos, "with Retry-After");
  close(connection);
}

void hosts_and_origins(Bench& bench, bool host) {
  if (host) {
    for (const char* name : {"evil.example", "evil.example:80", "localhost.evil.example"}) {
      expect_status(
          bench, shared().status(fmt::format("GET /v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", name)),
          403, name);
    }
    return;
  }
  std::string answer = shared().get("/v1/models", "Origin: https://evil.example\r\n");
  expect_status(bench, status_of(answer), 403, "a foreign origin");
  std::transform(answer.begin(), answer.end(), answer.begin(), ::tolower);
  bench.expect(answer.find("access-control-allow-origin") == std::string::npos, "no CORS header");
}

void paths(Bench& bench) {
  for (const char* path : {"/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1/models/..",
                           "/v1/models/%2e%2e", "/a%00b", "/v1/models/%00"}) {
    expect_status(bench, shared().get_status(path), 404, path);
  }
  for (const char* model : {"..", "../lm", "/etc/passwd", "lm\\u0000"}) {
    expect_status(
        bench,
        shared().post_status(kCompletions, fmt::format(R"({{"model":"{}","prompt":"x"}})", model)),
        404, model);
  }
}

void keys(Bench& bench) {
  const ServerProcess server({"--api-key", "secret", "--page", "on"});
  int guarded = 0;
  for (const serve::Route& route : serve::routes()) {
    if (route.access == serve::Route::Access::key) {
      const std::string path = route.path.ends_with('*')
                                   ? route.path.substr(0, route.path.size() - 1) + "x"
                                   : route.path;
      const std::string request = fmt::format(
          "{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
          "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}",
          route.method, path);
      expect_status(bench, server.status(request), 401, route.method + " " + path);
      ++guarded;
    }
  }
  bench.expect(guarded >= 30, fmt::format("{} routes ask for the key", guarded));
  expect_status(bench, server.get_status("/v1/models", "Authorization: Bearer wrong\r\n"), 401,
                "a wrong key");
  expect_status(bench, server.get_status("/v1/models", "Authorization: Bearer secret\r\n"), 200,
                "the right key");
}

void html(Bench& bench) {
  std::string answer = shared().post(
      kCompletions,
      R"({"model":"lm","prompt":"<script>alert(1)</script>","max_tokens":1,"echo":true})");
  expect_status(bench, status_of(answer), 200, "a prompt of HTML");
  bench.expect(answer.find("<script>alert(1)</script>") != std::string::npos,
               "the text comes back as it was");
  std::transform(answer.begin(), answer.end(), answer.begin(), ::tolower);
  bench.expect(answer.find("content-type: application/json") != std::string::npos,
               "output is JSON, not a page");
  bench.expect(answer.find("x-content-type-options: nosniff") != std::string::npos,
               "and is not to be guessed at");
}

void terminated(Bench& bench) {
  ServerProcess server({"--slots", "1"});
  const int connection = open_connection(server.port());
  send_all(connection, post_text(kCompletions, completion("\"max_tokens\":200")));
  for (int i = 0; i < 500 && server.metric("heed_requests_in_flight") < 1; ++i) {
  }
  bench.expect(server.end(SIGTERM) == 0, "SIGTERM under load exits with 0");
  std::string answer;
  char block[8192];
  for (ssize_t count = 0; (count = recv(connection, block, sizeof(block), 0)) > 0;) {
    answer.append(block, static_cast<size_t>(count));
  }
  expect_status(bench, status_of(answer), 200, "the request under way is answered");
  close(connection);
}

void little_memory(Bench& bench) {
  if constexpr (kSanitized) {
    bench.skip("sanitizer: it needs terabytes of address space");
    return;
  }
  const std::string model = (small_models() / "lm").native();
  Run run{.arguments = {"serve", "lm=" + model, "--port", "0"}};
  run.limits = {{RLIMIT_AS, uint64_t{96} << 20}};
  run.kill_after = 15;
  run.kill_signal = SIGKILL;
  const Outcome outcome = run_program(run);
  const bool listens =
      outcome.signal == SIGKILL && outcome.err.find("listening") != std::string::npos;
  const bool told = outcome.signal == 0 && outcome.code != 0 && outcome.err.starts_with("heed: ");
  bench.expect(listens || told,
               fmt::format("96 MB of address space: code {}, signal {}: {}", outcome.code,
                           outcome.signal, outcome.err.substr(0, 200)));
}

void few_descriptors(Bench& bench) {
  if constexpr (kSanitized) {
    bench.skip(
        "sanitizer: it opens a pipe to look at an object, and calls the object bad without one");
    return;
  }
  const ServerProcess server({"--max-connections", "1000"}, {{RLIMIT_NOFILE, 48}});
  std::vector<int> clients;
  for (int i = 0; i < 80; ++i) {
    clients.push_back(open_connection(server.port()));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (const int client : clients) {
    close(client);
  }
  bool answered = false;
  for (int i = 0; i < 200 && !answered; ++i) {
    answered = server.get_status("/health") == 200;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  bench.expect(answered && server.alive(), "the accept loop survives");
}

std::string long_prompt() {
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += "the lazy dog ";
  }
  return fmt::format(R"({{"model":"lm","prompt":"{}","max_tokens":1}})", text);
}

}  // namespace

std::vector<Fault> server_faults() {
  return {
      {45, "bad JSON, types, empty messages: 400", bad_json},
      {46, "oversize body: 413", large_body},
      {47, "endless chunks, bad chunk size", chunks},
      {48, "Content-Length with Transfer-Encoding, or twice", ambiguous_framing},
      {49, "huge header or URI: 431, 414",
       [](Bench& bench) {
         expect_status(bench,
                       shared().get_status("/health", "X: " + std::string(70'000, 'a') + "\r\n"),
                       431, "a header of 70 kB");
         expect_status(bench, shared().get_status("/" + std::string(20'000, 'a')), 414,
                       "a URI of 20 kB");
       }},
      {50, "slowloris", slow_clients},
      {51, "slow stream reader", slow_reader},
      {52, "max_tokens 2^31 or -5: 400",
       [](Bench& bench) {
         refused_field(bench, "max_tokens", {"2147483648", "-5"});
       }},
      {53, "n = 10^6: 400", [](Bench& bench) { refused_field(bench, "n", {"1000000"}); }},
      {54, "prompt longer than the context: 400",
       [](Bench& bench) { refused_bodies(bench, {long_prompt()}); }},
      {55, "temperature 1e9, top_p -1: 400",
       [](Bench& bench) {
         refused_field(bench, "temperature", {"1e9", "-1"});
         refused_field(bench, "top_p", {"-1"});
       }},
      {56, "disconnect mid-stream stops the generation", disconnect},
      {57, "queue full: 429 or 503 with Retry-After", full_queue},
      {58, "foreign Host: 403", [](Bench& bench) { hosts_and_origins(bench, true); }},
      {59, "foreign Origin: no CORS header", [](Bench& bench) { hosts_and_origins(bench, false); }},
      {60, "`..`, %2e%2e, NUL in a path or model name: 404", paths},
      {61, "missing key: 401 on every route", keys},
      {62, "HTML in model output is text", html},
      {63, "SIGTERM under load drains, exit 0", terminated},
      {86, "memory limit below the model", little_memory},
      {87, "file descriptors exhausted", few_descriptors},
  };
}

}  // namespace heed::test
