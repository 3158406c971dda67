// FAULTS 58, 59, 61, 62, 86 and 88, and the rest of the security table.
#include "serve/security.h"

#include <gtest/gtest.h>

#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

TEST(Security, ForeignHostsAre403) {
  const TestServer server;
  const std::string port = std::to_string(server.port());
  for (const char* host : {"evil.example", "evil.example:80", "localhost.evil.example",
                           "192.168.1.7", "127.0.0.1.evil.example", "", "[::2]", "[::1]evil",
                           "[::1", "[::1]:8x", "localhost:x@evil", "[]"}) {
    EXPECT_EQ(server.get("/v1/models", std::string("Host: ") + host + "\r\n").status, 403) << host;
    EXPECT_EQ(server.get("/health", std::string("Host: ") + host + "\r\n").status, 403) << host;
  }
  for (const std::string host : {"localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9"}) {
    EXPECT_EQ(server.get("/v1/models", "Host: " + host + "\r\n").status, 200) << host;
  }
  ServeOptions options;
  options.allowed_hosts = {"models.example"};
  const TestServer named({"lm"}, options);
  EXPECT_EQ(named.get("/v1/models", "Host: models.example\r\n").status, 200);
}

TEST(Security, ForeignOriginsGetNoCorsHeaderAndNoAnswer) {
  ServeOptions options;
  options.allowed_origins = {"https://app.example"};
  const TestServer server({"lm"}, options);
  for (const char* origin : {"http://evil.example", "null", "http://localhost.evil.example",
                             "https://app.example.evil", "file://"}) {
    const Answer answer = server.get("/v1/models", std::string("Origin: ") + origin + "\r\n");
    EXPECT_EQ(answer.status, 403) << origin;
    EXPECT_FALSE(answer.fields.contains("access-control-allow-origin"));
  }
  RawConnection preflight(server.port());
  preflight.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  EXPECT_FALSE(parse_answer(preflight.receive()).fields.contains("access-control-allow-origin"));
  RawConnection allowed(server.port());
  allowed.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(parse_answer(allowed.receive()).fields.at("access-control-allow-origin"),
            "https://app.example");
  const std::string own = "http://localhost:" + std::to_string(server.port());
  EXPECT_EQ(
      server.get("/v1/models", "Host: " + own.substr(7) + "\r\nOrigin: " + own + "\r\n").status,
      200);
}

TEST(Security, PostsMustBeJson) {
  const TestServer server;
  const std::string body = R"({"prompt":"x","max_tokens":1})";
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "application/jsonp", ""}) {
    EXPECT_EQ(
        server.post_text("/v1/completions", body, std::string("Content-Type: ") + type + "\r\n")
            .status,
        415)
        << type;
  }
  EXPECT_EQ(
      server.post_text("/v1/completions", body, "Content-Type: application/json; charset=utf-8\r\n")
          .status,
      200);
}

TEST(Security, AnOpenAddressNeedsAKey) {
  ServeOptions options;
  options.models = {(small_models() / "lm").string()};
  options.port = 0;
  for (const char* host : {"0.0.0.0", "::", "192.168.1.7"}) {
    options.host = host;
    EXPECT_ERROR(Server{options},
                 "can be reached from other machines; set an API key, or listen on 127.0.0.1")
        << host;
  }
  options.host = "0.0.0.0";
  options.api_keys = {""};
  EXPECT_ERROR(Server{options}, "api_key: the key is empty");
  options.api_keys = {"secret"};
  Server server(options);
  server.start();
  EXPECT_GT(server.port(), 0);
}

TEST(Security, OptionsThatMakeNoSenseAreRefused) {
  const auto refuses = [](auto change, const std::string& message) {
    ServeOptions options;
    options.models = {(small_models() / "lm").string()};
    change(options);
    EXPECT_ERROR(Server{options}, message);
  };
  refuses([](ServeOptions& o) { o.models.clear(); },
          "name at least one model, or a folder of models");
  refuses([](ServeOptions& o) { o.port = 70000; }, "port: 70000 is out of range; 0 to 65535");
  refuses([](ServeOptions& o) { o.slots = 0; }, "connections, queue and slots must be at least 1");
  refuses([](ServeOptions& o) { o.models.push_back(o.models.front()); },
          "two models are called lm; name one of them as NAME=PATH");
  refuses([](ServeOptions& o) { o.aliases = {"x=nothing"}; },
          "x=nothing: there is no model nothing");
  refuses([](ServeOptions& o) { o.models = {"../x=" + o.models.front()}; },
          "'../x' cannot be a model's name; give one as NAME=PATH");
  ServeOptions missing;
  missing.models = {(small_models() / "nothing").string()};
  missing.port = 0;
  Server server(missing);
  EXPECT_ERROR(server.start(), "does not exist");
}

TEST(Security, ComparisonsDoNotTellWhereTheyDiffer) {
  EXPECT_TRUE(serve::equal_in_constant_time("secret", "secret"));
  for (const char* wrong : {"", "s", "secreT", "Secret", "secrets", "secre"}) {
    EXPECT_FALSE(serve::equal_in_constant_time("secret", wrong)) << wrong;
  }
  EXPECT_FALSE(serve::equal_in_constant_time("", "x"));
  EXPECT_TRUE(serve::is_loopback("127.0.0.1"));
  EXPECT_TRUE(serve::is_loopback("127.9.9.9"));
  EXPECT_TRUE(serve::is_loopback("::1"));
  EXPECT_FALSE(serve::is_loopback("0.0.0.0"));
  EXPECT_FALSE(serve::is_loopback("::"));
  EXPECT_FALSE(serve::is_loopback("localhost"));
}

TEST(Security, AnswersAreNeverTakenForPages) {
  const TestServer server;
  const Answer answer =
      server.post("/v1/completions",
                  {{"prompt", "<script>alert(1)</script>"}, {"max_tokens", 1}, {"echo", true}});
  EXPECT_EQ(answer.fields.at("content-type"), "application/json");
  EXPECT_EQ(answer.fields.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(server.get("/<script>").fields.at("content-type"), "application/json");
}

}  // namespace
}  // namespace heed::test
