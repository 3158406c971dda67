// Bodies of multipart/form-data, header fields and errors: what a request may hold, and every
// reason to refuse it.
#include "serve/form.h"

#include <gtest/gtest.h>

#include "serve/http_message.h"

namespace heed::serve {
namespace {

HttpRequest form(const std::string& body,
                 const std::string& type = "multipart/form-data; boundary=B") {
  HttpRequest request;
  request.fields.emplace_back("content-type", type);
  request.body = body;
  return request;
}

std::string part(const std::string& name, const std::string& value) {
  return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
}

std::vector<Field> all_fields() {
  std::vector<Field> fields(4);
  const std::pair<const char*, FieldType> kinds[] = {{"n", FieldType::integer},
                                                     {"x", FieldType::number},
                                                     {"flag", FieldType::boolean},
                                                     {"list", FieldType::strings}};
  for (size_t i = 0; i < fields.size(); ++i) {
    fields[i].name = kinds[i].first;
    fields[i].type = kinds[i].second;
  }
  return fields;
}

std::string as_json(const HttpRequest& request) {
  std::map<std::string, std::string> files;
  return form_as_json(request, all_fields(), files);
}

TEST(Form, TextsBecomeValuesOfTheirFields) {
  const std::pair<std::string, std::string> cases[] = {
      {part("n", "3"), R"({"n":3})"},
      {part("x", "1.5e3"), R"({"x":1.5e3})"},
      {part("n", "three"), R"({"n":"three"})"},
      {part("n", ""), R"({"n":""})"},
      {part("n", "--"), R"({"n":"--"})"},
      {part("n", std::string(33, '1')), R"({"n":")" + std::string(33, '1') + "\"}"},
      {part("flag", "true"), R"({"flag":true})"},
      {part("flag", "false"), R"({"flag":false})"},
      {part("flag", "maybe"), R"({"flag":"maybe"})"},
      {part("list[]", "a") + part("list[]", "b"), R"({"list":["a","b"]})"},
      {part("list", "a"), R"({"list":["a"]})"},
      {part("unknown", "true"), R"({"unknown":"true"})"},
      {"--B\r\nX-Other\r\nContent-Type: text/plain\r\ncontent-disposition: form-data; name=n\r\n"
       "\r\n7\r\n",
       R"({"n":7})"},
      {"--B\r\nContent-Disposition: form-data; a=; b=\"c\"; name=\"n\"; \r\n\r\n7\r\n",
       R"({"n":7})"},
  };
  for (const auto& [body, json] : cases) {
    EXPECT_EQ(as_json(form(body + "--B--\r\n")), json) << body;
  }
  std::map<std::string, std::string> files;
  EXPECT_EQ(form_as_json(form("--B\r\nContent-Disposition: form-data; name=\"file\"; "
                              "filename=\"a.wav\"\r\n\r\nRIFF\r\n--B--"),
                         {}, files),
            R"({"file":"a.wav"})");
  EXPECT_EQ(files.at("file"), "RIFF");
}

TEST(Form, EveryRefusalSaysWhy) {
  const auto why = [](const HttpRequest& request) -> std::string {
    try {
      as_json(request);
    } catch (const BadRequest& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string head = "Content-Disposition: form-data; name=\"n\"";
  std::string many;
  for (int i = 0; i < 65; ++i) {
    many += part("n", "1");
  }
  const std::pair<std::string, std::string> bodies[] = {
      {"", "it does not begin with its boundary"},
      {"--Bx", "a part ends wrongly"},
      {"--B\r\n" + head + "\r\n\r\n7", "a part does not end"},
      {"--B\r\n" + head + "\r\n--B--", "a part has no header"},
      {"--B\r\n" + head + std::string(9000, 'x') + "\r\n\r\n7\r\n--B--", "a part has no header"},
      {"--B\r\nContent-Disposition: form-data; \r\n\r\n7\r\n--B--", "a part has no name"},
      {"--B\r\nContent-Disposition: form-data; name\r\n\r\n7\r\n--B--", "a part has no name"},
      {"--B\r\nContent-Disposition: form-data; other=\"n\r\n\r\n7\r\n--B--", "a part has no name"},
      {"--B\r\nContent-Disposition: form-data; name=\r\n\r\n7\r\n--B--", "a part has no name"},
      {many + "--B--", "it has too many parts"},
  };
  for (const auto& [body, part_of_message] : bodies) {
    EXPECT_EQ(why(form(body)), "the form is malformed: " + part_of_message) << body;
  }
  for (const std::string& type : {std::string("multipart/form-data"),
                                  "multipart/form-data; boundary=" + std::string(71, 'b')}) {
    EXPECT_EQ(why(form("--B--", type)),
              "the form is malformed: its Content-Type names no boundary");
  }
}

TEST(Form, IsToldByItsContentType) {
  EXPECT_TRUE(is_form(form("", "Multipart/Form-Data; boundary=x")));
  EXPECT_TRUE(is_form(form("", "multipart/form-data")));
  EXPECT_FALSE(is_form(form("", "application/json")));
  EXPECT_FALSE(is_form(HttpRequest()));
}

TEST(HttpMessage, FieldsAreFoundInAnyCase) {
  HttpRequest request;
  request.fields = {{"Host", "a"}, {"HOST", "b"}, {"Accept", "c"}};
  EXPECT_EQ(request.count("host"), 2u);
  EXPECT_EQ(request.count("none"), 0u);
  EXPECT_EQ(*request.find("accept"), "c");
  EXPECT_EQ(request.find("none"), nullptr);
}

TEST(HttpMessage, EveryStatusHasItsPhraseAndType) {
  const std::pair<int, const char*> phrases[] = {
      {100, "Continue"},
      {200, "OK"},
      {204, "No Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Payload Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {421, "Misdirected Request"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {299, "Unknown"},
  };
  for (const auto& [status, phrase] : phrases) {
    EXPECT_STREQ(reason_phrase(status), phrase) << status;
  }
  const std::pair<int, const char*> types[] = {
      {400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"},
      {404, "not_found_error"},       {429, "rate_limit_error"},     {500, "server_error"},
      {501, "not_supported_error"},   {503, "unavailable_error"},
  };
  for (const auto& [status, type] : types) {
    const HttpResponse response = error_response(status, "m");
    EXPECT_NE(response.body.find(std::string("\"type\":\"") + type), std::string::npos) << status;
    const bool retry = status == 429 || status == 503;
    EXPECT_EQ(response.fields.size(), retry || status == 401 ? 1u : 0u) << status;
  }
}

TEST(HttpMessage, PercentDecoding) {
  std::string out;
  EXPECT_TRUE(percent_decode("a%2Fb%c3%A9", out));
  EXPECT_EQ(out, "a/b\u00e9");
  for (const char* bad : {"%", "%4", "%4g", "%g4", "%/4", "%:4", "%4`", "%00"}) {
    EXPECT_FALSE(percent_decode(bad, out)) << bad;
  }
}

}  // namespace
}  // namespace heed::serve
