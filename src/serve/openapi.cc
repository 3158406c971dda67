#include "serve/routes.h"

namespace heed::serve {
namespace {

void write_error_response(JsonWriter& json, const char* status, const char* description) {
  json.key(status).begin_object().field("description", description);
  json.key("content").begin_object().key("application/json").begin_object();
  json.key("schema").begin_object().field("$ref", "#/components/schemas/Error").end_object();
  json.end_object().end_object().end_object();
}

const char* answer_type(const Route& route) {
  return route.path == "/metrics" ? "text/plain"
         : route.path == "/"      ? "text/html"
                                  : "application/json";
}

void write_operation(JsonWriter& json, const Route& route) {
  std::string method = route.method;
  for (char& c : method) {
    c = static_cast<char>(c - 'A' + 'a');
  }
  json.key(method).begin_object().field("summary", route.summary);
  json.key("tags").begin_array().value(route.tag).end_array();
  if (route.path.back() == '*') {
    json.key("parameters").begin_array().begin_object().field("name", "name").field("in", "path");
    json.field("required", true).key("schema").begin_object().field("type", "string").end_object();
    json.end_object().end_array();
  }
  json.key("security").begin_array();
  if (route.access == Route::Access::key) {
    json.begin_object().key("key").begin_array().end_array().end_object();
  }
  json.begin_object().end_object().end_array();
  if (route.method == "POST") {
    json.key("requestBody").begin_object().field("required", true).key("content").begin_object();
    for (const char* type : {"application/json", "multipart/form-data"}) {
      if (route.form || std::string_view(type) == "application/json") {
        json.key(type).begin_object().key("schema");
        write_object_schema(json, route.fields);
        json.end_object();
      }
    }
    json.end_object().end_object();
  }
  json.key("responses").begin_object();
  json.key("200").begin_object().field("description", "The answer");
  json.key("content").begin_object();
  json.key(answer_type(route)).begin_object().end_object();
  if (route.form) {  // a recording's text as text, SRT or WebVTT
    json.key("text/plain").begin_object().end_object();
    json.key("text/vtt").begin_object().end_object();
  }
  if (route.may_stream) {
    json.key("text/event-stream").begin_object().end_object();
  }
  json.end_object().end_object();
  if (route.access == Route::Access::key) {
    write_error_response(json, "401", "The API key is missing or wrong");
  }
  write_error_response(json, "403", "The Host or Origin is not allowed");
  if (route.method == "POST") {
    write_error_response(json, "400", "A field is missing or not what the schema says");
    write_error_response(json, "413", "The body is too large");
    write_error_response(json, "415", "The body is not application/json");
    write_error_response(json, "429", "Too many requests are waiting");
    write_error_response(json, "503", "The models are being loaded");
  }
  write_error_response(json, "404", "There is no model of this name, or no page is served");
  json.end_object().end_object();
}

}  // namespace

std::string openapi_document() {
  JsonWriter json;
  json.begin_object().field("openapi", "3.1.0").key("info").begin_object();
  json.field("title", "heed").field("version", HEED_SERVE_VERSION);
  json.field("description",
             "One server for decoders, encoders, encoder-decoders and vision models. A request's "
             "answer does not depend on what else the server is doing.");
  json.end_object().key("paths").begin_object();
  for (size_t i = 0; i < routes().size(); ++i) {
    const Route& route = routes()[i];
    const bool open_end = route.path.back() == '*';
    const bool first = i == 0 || routes()[i - 1].path != route.path;
    const bool last = i + 1 == routes().size() || routes()[i + 1].path != route.path;
    if (first) {
      json.key(open_end ? route.path.substr(0, route.path.size() - 1) + "{name}" : route.path);
      json.begin_object();
    }
    write_operation(json, route);
    if (last) {
      json.end_object();
    }
  }
  json.end_object().key("components").begin_object();
  json.key("securitySchemes").begin_object().key("key").begin_object();
  json.field("type", "http").field("scheme", "bearer").end_object().end_object();
  json.key("schemas").begin_object().key("Error");
  write_object_schema(
      json, {object_field("error",
                          {string_field("message", 1 << 20, "What is wrong and what to do").must(),
                           string_field("type", 64, "The kind of error").must(),
                           string_field("param", 1024, "The field that is wrong"),
                           string_field("code", 64, "A word for programs")},
                          "The error")
                 .must()});
  return json.end_object().end_object().end_object().take();
}

}  // namespace heed::serve
