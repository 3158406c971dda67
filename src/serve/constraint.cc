#include "serve/constraint.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "heed/error.h"

namespace heed::serve {
namespace {

/// A part of the request's body with its members in the order in which the client wrote them:
/// properties are generated in that order. The body has been parsed before: it is JSON.
std::string as_written(const Call& call, const std::string& pointer) {
  const auto body = nlohmann::ordered_json::parse(call.exchange->request().body);
  return body.at(nlohmann::ordered_json::json_pointer(pointer)).dump();
}

std::optional<Grammar> response_format_grammar(const Call& call) {
  const Json format = call.body->at("response_format");
  const std::string type = format.string("type");
  if (type == "text") {
    return std::nullopt;
  }
  if (type == "json_object" && !format.has("schema")) {
    return Grammar::json_object();
  }
  // OpenAI's {"json_schema": {"schema": …}}; llama.cpp's server also takes {"schema": …}.
  const auto holder = type == "json_schema" ? format.find("json_schema") : std::optional(format);
  const auto schema = holder && holder->is_object() ? holder->find("schema") : std::nullopt;
  if (!schema) {
    throw BadRequest("'response_format.json_schema.schema' is missing: the JSON schema",
                     "response_format.json_schema.schema", "missing_required_parameter");
  }
  return Grammar::from_json_schema(
      as_written(call, type == "json_schema" ? "/response_format/json_schema/schema"
                                             : "/response_format/schema"),
      "response_format");
}

std::optional<Grammar> requested_grammar(const Call& call) {
  if (call.has("response_format")) {
    return response_format_grammar(call);
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
