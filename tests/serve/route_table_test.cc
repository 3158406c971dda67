// Walks the table of routes: every field is posted below, above and of the wrong type (FAULTS 52 to
// 55 among them), and /openapi.json says what the server does.
#include <gtest/gtest.h>

#include <cmath>

#include "serve/routes.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;
using serve::Field;
using serve::FieldType;
using serve::Route;

TestServer& all_models() {
  static TestServer server(
      {"lm", "encoder", "classifier", "masked", "translator", "vision", "captioner", "speech"});
  return server;
}

/// A value that fits a field, where it must be there.
json fitting(const Field& field) {
  switch (field.type) {
    case FieldType::boolean:
      return true;
    case FieldType::integer:
    case FieldType::number:
      return field.low;
    case FieldType::string:
      return field.choices.empty() ? "the fox" : field.choices.front();
    case FieldType::object:
    case FieldType::number_map:
      return json::object();
    case FieldType::list:
      return json::array({1});
    case FieldType::objects: {
      json item = json::object();
      for (const Field& member : field.members) {
        if (member.required) {
          item[member.name] = fitting(member);
        }
      }
      return json::array({item});
    }
    default:
      return "the fox";
  }
}

json fitting_body(const Route& route) {
  json body = json::object();
  for (const Field& field : route.fields) {
    if (field.required) {
      body[field.name] = fitting(field);
    }
  }
  return body;
}

/// Values that a field must refuse.
std::vector<json> bad_values(const Field& field) {
  switch (field.type) {
    case FieldType::boolean:
      return {"true", 1, json::array(), json::object()};
    case FieldType::integer:
      return {field.low - 1,  field.high + 1,   "5",  1.5, true, json::array(),
              json::object(), int64_t{1} << 62, -1e30};
    case FieldType::number:
      return {field.low - 1, field.high + 1, "0.5", false, json::array(), json::object(), 1e300};
    case FieldType::string: {
      std::vector<json> values{5, true, json::array({"a"}), json::object()};
      field.choices.empty()
          ? values.push_back(std::string(static_cast<size_t>(field.high) + 1, 'x'))
          : values.push_back("nothing of the kind");
      return values;
    }
    case FieldType::strings:
      return {5,
              true,
              json::object(),
              json::array({1}),
              json::array({json::array()}),
              std::vector<std::string>(static_cast<size_t>(field.high) + 1, "x")};
    case FieldType::object:
      return {5, "x", true, json::array()};
    case FieldType::objects: {
      std::vector<json> values{
          5,
          "x",
          true,
          json::object(),
          json::array({1}),
          std::vector<json>(static_cast<size_t>(field.high) + 1, json::object())};
      if (field.low > 0.0) {
        values.push_back(json::array());
      }
      return values;
    }
    case FieldType::list:
      return {5, "x", true, json::object()};
    case FieldType::number_map:
      return {5,
              "x",
              true,
              json::array(),
              {{"1", "x"}},
              {{"1", field.high + 1}},
              {{"1", field.low - 1}}};
    case FieldType::any:
      return {};
  }
  return {};
}

TEST(RouteTable, EveryFieldRefusesWhatItsRowExcludes) {
  int tried = 0;
  for (const Route& route : serve::routes()) {
    for (const Field& field : route.fields) {
      for (const json& value : bad_values(field)) {
        json body = fitting_body(route);
        body[field.name] = value;
        const Answer answer = all_models().post(route.path, body);
        ++tried;
        ASSERT_EQ(answer.status, 400)
            << route.path << " " << field.name << " " << value.dump().substr(0, 80) << "\n"
            << answer.body;
        const std::string param = answer.param();
        EXPECT_TRUE(param == field.name || param.starts_with(field.name + "[") ||
                    param.starts_with(field.name + "."))
            << route.path << " " << field.name << ": param is " << param;
      }
      for (const Field& member : field.members) {
        for (const json& value : bad_values(member)) {
          json body = fitting_body(route);
          json inside = json::object();
          for (const Field& other : field.members) {
            if (other.required) {
              inside[other.name] = fitting(other);
            }
          }
          inside[member.name] = value;
          body[field.name] = field.type == FieldType::objects ? json::array({inside}) : inside;
          const Answer answer = all_models().post(route.path, body);
          ++tried;
          ASSERT_EQ(answer.status, 400) << route.path << " " << field.name << "." << member.name
                                        << " " << value.dump().substr(0, 80);
          EXPECT_NE(answer.param().find(member.name), std::string::npos);
        }
      }
    }
  }
  EXPECT_GT(tried, 500);
}

TEST(RouteTable, MissingFieldsAreNamed) {
  for (const Route& route : serve::routes()) {
    for (const Field& field : route.fields) {
      if (field.required) {
        json body = fitting_body(route);
        body.erase(field.name);
        const Answer answer = all_models().post(route.path, body);
        EXPECT_EQ(answer.status, 400) << route.path << " " << field.name;
        EXPECT_EQ(answer.param(), field.name) << route.path;
        body[field.name] = nullptr;  // null counts as absent
        EXPECT_EQ(all_models().post(route.path, body).param(), field.name) << route.path;
      }
    }
  }
}

TEST(RouteTable, NumbersOutOfAllBoundsAre400) {
  for (const json& value : {json(int64_t{1} << 31), json(-5), json(1e300)}) {
    const Answer answer =
        all_models().post("/v1/completions", {{"prompt", "x"}, {"max_tokens", value}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.param(), "max_tokens");
  }
  EXPECT_EQ(all_models().post("/v1/completions", {{"prompt", "x"}, {"n", 1'000'000}}).param(), "n");
  EXPECT_EQ(all_models().post("/v1/completions", {{"prompt", "x"}, {"temperature", 1e9}}).param(),
            "temperature");
  EXPECT_EQ(all_models().post("/v1/completions", {{"prompt", "x"}, {"top_p", -1}}).param(),
            "top_p");
  const Answer many = all_models().post(
      "/v1/completions", {{"prompt", std::vector<std::string>(100, "x")}, {"n", 100}});
  EXPECT_EQ(many.status, 400);
}

TEST(RouteTable, PromptsBeyondTheContextAre400) {
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += "the fox ";
  }
  const Answer answer = all_models().post("/v1/completions", {{"prompt", text}});
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_EQ(answer.json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(all_models().post("/v1/embeddings", {{"input", text}, {"model", "encoder"}}).status,
            400);
  EXPECT_EQ(all_models()
                .post("/v1/embeddings", {{"input", text}, {"model", "encoder"}, {"truncate", true}})
                .status,
            200);
}

TEST(RouteTable, OpenApiDescribesEveryRoute) {
  const json document = all_models().get("/openapi.json").json();
  EXPECT_EQ(document["openapi"], "3.1.0");
  for (const Route& route : serve::routes()) {
    std::string path = route.path;
    if (path.back() == '*') {
      path.replace(path.size() - 1, 1, "{name}");
    }
    ASSERT_TRUE(document["paths"].contains(path)) << path;
    const json operation = document["paths"][path][route.method == "GET" ? "get" : "post"];
    EXPECT_EQ(operation["summary"], route.summary);
    if (route.method == "GET") {
      continue;
    }
    const json schema =
        operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
    EXPECT_EQ(schema.size(), route.fields.size()) << path;
    for (const Field& field : route.fields) {
      ASSERT_TRUE(schema.contains(field.name)) << path << " " << field.name;
      if (field.type == FieldType::integer || field.type == FieldType::number) {
        EXPECT_EQ(schema[field.name]["minimum"].get<double>(), field.low);
        EXPECT_EQ(schema[field.name]["maximum"].get<double>(), field.high);
      }
      if (field.type == FieldType::any) {  // never "anything": clients are made from this
        EXPECT_GE(schema[field.name]["anyOf"].size(), 2) << path << " " << field.name;
      }
      if (field.type == FieldType::objects) {
        EXPECT_EQ(schema[field.name].value("minItems", 0.0), field.low) << path << field.name;
      }
    }
  }
}

TEST(RouteTable, EveryRouteNeedsTheKey) {
  ServeOptions options;
  options.api_keys = {"secret", "another"};
  const TestServer server({"lm"}, options);
  for (const Route& route : serve::routes()) {
    const std::string path =
        route.path.back() == '*' ? route.path.substr(0, route.path.size() - 1) + "lm" : route.path;
    for (const char* fields : {"", "Authorization: Bearer wrong\r\n", "Authorization: secret\r\n",
                               "Authorization: Bearer secre\r\n", "Authorization: Basic secret\r\n",
                               "Authorization: Bearer secrets\r\n", "X-Api-Key: wrong\r\n"}) {
      const Answer answer = route.method == "GET" ? server.get(path, fields)
                                                  : server.post(path, json::object(), fields);
      EXPECT_EQ(answer.status, route.access == Route::Access::open ? 200 : 401) << path << fields;
    }
  }
  for (const char* fields : {"Authorization: Bearer secret\r\n",
                             "Authorization: bearer another\r\n", "X-Api-Key: secret\r\n"}) {
    EXPECT_EQ(server.get("/v1/models", fields).status, 200) << fields;
  }
}

}  // namespace
}  // namespace heed::test
