#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/json.h"

namespace heed {

struct Json::Document {
  std::string file;
  nlohmann::json root;
};

/// The way from a handle to the parser's values and back.
struct JsonAccess {
  static const nlohmann::json& node(const Json& value) {
    return *reinterpret_cast<const nlohmann::json*>(value.node_);
  }
  static const JsonNode* pointer(const nlohmann::json& node) {
    return reinterpret_cast<const JsonNode*>(&node);
  }
  static Json adopt(nlohmann::json&& value, const std::string& file) {
    auto document = std::make_shared<Json::Document>();
    document->file = file;
    document->root = std::move(value);
    return JsonAccess::document(std::move(document));
  }
  static Json document(std::shared_ptr<const Json::Document> document) {
    const JsonNode* root = pointer(document->root);
    return Json(std::move(document), root);
  }
};

}  // namespace heed
