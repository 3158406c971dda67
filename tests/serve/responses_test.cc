#include <gtest/gtest.h>

#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

const TestServer& server() {
  static const TestServer kServer({"chat"});
  return kServer;
}

json response_body() {
  const json tool = {{"type", "function"},
                     {"name", "light"},
                     {"parameters",
                      {{"type", "object"},
                       {"properties", {{"on", {{"type", "boolean"}}}}},
                       {"required", {"on"}},
                       {"additionalProperties", false}}}};
  return {{"model", "chat"},
          {"input", "the fox"},
          {"tools", {tool}},
          {"tool_choice", "required"},
          {"max_output_tokens", 200},
          {"seed", 3},
          {"metadata", {{"who", "me"}}}};
}

TEST(Tasks, ResponsesCallTools) {
  json body = response_body();
  const json whole = server().post("/v1/responses", body).json();
  ASSERT_EQ(whole["output"].size(), 1) << whole;
  const json call = whole["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "light");
  EXPECT_TRUE(json::parse(call["arguments"].get<std::string>())["on"].is_boolean());
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_EQ(whole["tools"], body["tools"]);
  EXPECT_EQ(whole["metadata"]["who"], "me");
  // The chat route makes the same call of the same functions.
  const json function = {{"name", "light"}, {"parameters", body["tools"][0]["parameters"]}};
  const json chat = server()
                        .post("/v1/chat/completions",
                              {{"model", "chat"},
                               {"messages", {{{"role", "user"}, {"content", "the fox"}}}},
                               {"tools", {{{"type", "function"}, {"function", function}}}},
                               {"tool_choice", "required"},
                               {"max_tokens", 200},
                               {"seed", 3}})
                        .json();
  EXPECT_EQ(chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
            call["arguments"]);
  EXPECT_EQ(server().post("/v1/responses/input_tokens", body).json()["input_tokens"],
            whole["usage"]["input_tokens"]);
  body["stream"] = true;
  std::vector<std::string> names;
  json last;
  int64_t number = 0;
  for (const json& event : server().post("/v1/responses", body).events()) {
    EXPECT_EQ(event["sequence_number"], number++);
    names.push_back(event["type"]);
    last = event;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "response.created", "response.in_progress", "response.output_item.added",
                "response.function_call_arguments.delta", "response.function_call_arguments.done",
                "response.output_item.done", "response.completed"}));
  EXPECT_EQ(last["response"]["output"][0]["arguments"], call["arguments"]);
  body["tool_choice"] = {{"type", "function"}, {"name", "dark"}};
  EXPECT_EQ(server().post("/v1/responses", body).param(), "tool_choice");
  body["tools"] = {{{"type", "web_search"}}};
  EXPECT_EQ(server().post("/v1/responses", body).param(), "tools");
}

TEST(Tasks, ResponsesTakeCallsAndTheirResults) {
  const json call = {
      {"type", "function_call"}, {"call_id", "c1"}, {"name", "light"}, {"arguments", "{}"}};
  const json output = {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "it is on"}};
  json body = {{"model", "chat"},
               {"input", {{{"role", "user"}, {"content", "the fox"}}, call, output}},
               {"max_output_tokens", 4},
               {"temperature", 0}};
  const json answer = server().post("/v1/responses", body).json();
  ASSERT_EQ(answer["output"].size(), 1) << answer;
  EXPECT_EQ(answer["output"][0]["type"], "message");
  const json chat =
      server()
          .post("/v1/chat/completions",
                {{"model", "chat"},
                 {"messages",
                  {{{"role", "user"}, {"content", "the fox"}},
                   {{"role", "assistant"},
                    {"content", ""},
                    {"tool_calls",
                     {{{"id", "c1"},
                       {"type", "function"},
                       {"function", {{"name", "light"}, {"arguments", "{}"}}}}}}},
                   {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "it is on"}}}},
                 {"max_tokens", 4},
                 {"temperature", 0}})
          .json();
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(answer["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  body["input"][1].erase("name");
  EXPECT_EQ(server().post("/v1/responses", body).param(), "input");
  body["input"][1] = {{"type", "item_reference"}, {"id", "x"}};
  EXPECT_EQ(server().post("/v1/responses", body).param(), "input");
  EXPECT_EQ(server()
                .post("/v1/responses",
                      {{"model", "chat"}, {"input", "x"}, {"previous_response_id", "resp_1"}})
                .param(),
            "previous_response_id");
}

TEST(Tasks, ResponsesFollowAFormat) {
  const json schema = {{"type", "object"},
                       {"properties", {{"on", {{"type", "boolean"}}}}},
                       {"required", {"on"}},
                       {"additionalProperties", false}};
  json body = {
      {"model", "chat"},
      {"input", "the fox"},
      {"max_output_tokens", 100},
      {"text", {{"format", {{"type", "json_schema"}, {"name", "light"}, {"schema", schema}}}}}};
  const json answer = server().post("/v1/responses", body).json();
  const std::string text = answer["output"][0]["content"][0]["text"];
  EXPECT_TRUE(json::parse(text)["on"].is_boolean()) << text;
  body["text"]["format"].erase("schema");
  EXPECT_EQ(server().post("/v1/responses", body).param(), "text.format.schema");
}

}  // namespace
}  // namespace heed::test
