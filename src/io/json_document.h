#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/json.h"

namespace heed {

/// Empties a value from the inside out. nlohmann's destructor allocates a list of what is inside,
/// and ends the process where there is no memory for it; of emptied containers there is nothing to
/// list. As deep as documents are (JsonLimits::depth).
inline void release_json(nlohmann::json& value) {
  if (value.is_array()) {
    auto& elements = value.get_ref<nlohmann::json::array_t&>();
    for (nlohmann::json& element : elements) {
      release_json(element);
    }
    elements.clear();
  } else if (value.is_object()) {
    auto& members = value.get_ref<nlohmann::json::object_t&>();
    for (auto& [key, member] : members) {
      release_json(member);
    }
    members.clear();
  }
}

struct Json::Document {
  Document() = default;
  ~Document() { release_json(root); }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

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
