#include "serve/constraint.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "heed/runtime.h"

namespace heed::serve {
namespace {

/// A part of the request's body with its members in the order in which the client wrote them:
/// properties are generated in that order. The body has been parsed before: it is JSON.
std::string as_written(const Call& call, const std::string& pointer) {
  const auto body = nlohmann::ordered_json::parse(call.exchange->request().body);
  return body.at(nlohmann::ordered_json::json_pointer(pointer)).dump();
}

/// The grammar of a form of the answer, which stands at `pointer` in the body: OpenAI's
/// {"json_schema": {"schema": …}}; /v1/responses and llama.cpp's server have {"schema": …}.
std::optional<Grammar> format_grammar(const Call& call, const Json& format,
                                      const std::string& pointer) {
  const std::string type = format.string("type");
  if (type == "text") {
    return std::nullopt;
  }
  if (type == "json_object" && !format.has("schema")) {
    return Grammar::json_object();
  }
  const bool nested = type == "json_schema" && !format.has("schema");
  const auto holder = nested ? format.find("json_schema") : std::optional(format);
  if (!holder || !holder->is_object() || !holder->has("schema")) {
    const std::string field =
        pointer == "/text/format" ? "text.format.schema" : "response_format.json_schema.schema";
    throw BadRequest("'" + field + "' is missing: the JSON schema", field,
                     "missing_required_parameter");
  }
  return Grammar::from_json_schema(
      as_written(call, pointer + (nested ? "/json_schema/schema" : "/schema")), "response_format");
}

std::optional<Grammar> requested_grammar(const Call& call) {
  if (call.has("response_format")) {
    return format_grammar(call, call.body->at("response_format"), "/response_format");
  }
  if (call.has("json_schema")) {
    return Grammar::from_json_schema(as_written(call, "/json_schema"), "json_schema");
  }
  if (call.has("grammar") && !call.text("grammar").empty()) {
    return Grammar::from_gbnf(call.text("grammar"));
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const TokenConstraint> read_constraint(const Call& call) {
  const int given = (call.has("response_format") ? 1 : 0) + (call.has("json_schema") ? 1 : 0) +
                    (call.has("grammar") ? 1 : 0);
  if (given > 1) {
    throw BadRequest("'response_format', 'json_schema' and 'grammar' exclude each other",
                     call.has("grammar") ? "grammar" : "json_schema");
  }
  const char* param = call.has("response_format") ? "response_format"
                      : call.has("json_schema")   ? "json_schema"
                                                  : "grammar";
  try {
    const std::optional<Grammar> grammar = requested_grammar(call);
    return grammar ? std::make_shared<TokenConstraint>(*grammar, call.model->token_table())
                   : nullptr;
  } catch (const Error& error) {
    throw BadRequest(error.what(), param);
  }
}

std::shared_ptr<const TokenConstraint> format_constraint(const Call& call, const Json& format,
                                                         const std::string& pointer) {
  try {
    const std::optional<Grammar> grammar = format_grammar(call, format, pointer);
    return grammar ? std::make_shared<TokenConstraint>(*grammar, call.model->token_table())
                   : nullptr;
  } catch (const Error& error) {
    throw BadRequest(error.what(), "text.format");
  }
}

std::shared_ptr<const TokenConstraint> schema_constraint(const Call& call,
                                                         const std::string& schema,
                                                         const std::string& param) {
  try {
    return std::make_shared<TokenConstraint>(Grammar::from_json_schema(schema, param),
                                             call.model->token_table());
  } catch (const Error& error) {
    throw BadRequest(error.what(), param);
  }
}

}  // namespace heed::serve
