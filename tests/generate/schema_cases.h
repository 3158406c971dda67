#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "heed/runtime.h"

namespace heed::test {

using Json5 = nlohmann::ordered_json;

/// Characters of UTF-8.
inline size_t character_count(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// One wchar_t per character: regular expressions must not see bytes.
inline std::wstring wide(const std::string& text) {
  std::wstring result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) {
      result.back() = static_cast<wchar_t>((result.back() << 6) | (byte & 0x3F));
    } else {
      result += static_cast<wchar_t>(byte < 0x80   ? byte
                                     : byte < 0xE0 ? byte & 0x1F
                                     : byte < 0xF0 ? byte & 0x0F
                                                   : byte & 0x07);
    }
  }
  return result;
}

/// A plain validator of the keywords that random_schema() uses; written against the specification,
/// not against the grammar.
inline bool validates(const Json5& root, const Json5& schema, const Json5& value) {
  if (schema.is_boolean()) {
    return schema.get<bool>();
  }
  const auto check = [&](const Json5& part) { return validates(root, part, value); };
  if (schema.contains("$ref")) {
    const std::string target = schema["$ref"];
    return check(root.at(Json5::json_pointer(target.substr(1))));
  }
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end()) {
    return false;
  }
  if (schema.contains("type")) {
    const Json5 types = schema["type"].is_array() ? schema["type"] : Json5::array({schema["type"]});
    const bool fits = std::any_of(types.begin(), types.end(), [&](const Json5& type) {
      return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
             (type == "string" && value.is_string()) || (type == "null" && value.is_null()) ||
             (type == "boolean" && value.is_boolean()) || (type == "number" && value.is_number()) ||
             (type == "integer" && value.is_number_integer());
    });
    if (!fits) return false;
  }
  if (schema.contains("anyOf") &&
      std::none_of(schema["anyOf"].begin(), schema["anyOf"].end(), check)) {
    return false;
  }
  if (schema.contains("oneOf") &&
      std::count_if(schema["oneOf"].begin(), schema["oneOf"].end(), check) != 1) {
    return false;
  }
  if (schema.contains("allOf") &&
      !std::all_of(schema["allOf"].begin(), schema["allOf"].end(), check)) {
    return false;
  }
  if (value.is_string()) {
    const size_t length = character_count(value);
    if (length < schema.value("minLength", size_t{0})) return false;
    if (length > schema.value("maxLength", size_t{1} << 40)) return false;
    if (schema.contains("pattern") &&
        !std::regex_search(wide(value), std::wregex(wide(schema["pattern"])))) {
      return false;
    }
  }
  if (value.is_number()) {
    const double number = value;
    if (number < schema.value("minimum", -1e300) || number > schema.value("maximum", 1e300) ||
        number <= schema.value("exclusiveMinimum", -1e300) ||
        number >= schema.value("exclusiveMaximum", 1e300)) {
      return false;
    }
  }
  if (value.is_array()) {
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    if (value.size() > schema.value("maxItems", size_t{1} << 40)) return false;
    const Json5 first = schema.value("prefixItems", Json5::array());
    const Json5 items = schema.value("items", Json5(true));
    for (size_t i = 0; i < value.size(); ++i) {
      if (!validates(root, i < first.size() ? first[i] : items, value[i])) return false;
    }
  }
  if (value.is_object()) {
    const Json5 properties = schema.value("properties", Json5::object());
    const Json5 others = schema.value("additionalProperties", Json5(true));
    for (const Json5& name : schema.value("required", Json5::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    for (const auto& [name, member] : value.items()) {
      if (!validates(root, properties.contains(name) ? properties[name] : others, member)) {
        return false;
      }
    }
  }
  return true;
}

/// Random schemas of every keyword that grammars support.
class RandomSchemas {
 public:
  explicit RandomSchemas(uint64_t seed) : random_(seed) {}

  Json5 schema() {
    Json5 root = one(3);
    if (!root.is_object()) {
      root = Json5{{"type", "object"}};
    }
    if (uses_tree_) {
      root["$defs"]["tree"] = {
          {"type", "object"},
          {"properties",
           {{"label", {{"type", "string"}, {"maxLength", 4}}},
            {"children",
             {{"type", "array"}, {"items", {{"$ref", "#/$defs/tree"}}}, {"maxItems", 2}}}}},
          {"required", {"label"}},
          {"additionalProperties", false}};
    }
    return root;
  }

 private:
  uint64_t below(uint64_t n) { return random_.below(n); }
  bool maybe() { return below(2) == 0; }
  std::string name() {
    static const std::vector<std::string> kNames{"a",    "ab",  "abc", "name", "na", "한",
                                                 "한글", "x y", "q\"", "b\\",  "é",  ""};
    return kNames[below(kNames.size())];
  }

  Json5 leaf() {
    switch (below(10)) {
      case 0:
        return {{"type", "null"}};
      case 1:
        return {{"type", "boolean"}};
      case 2:
        return {{"const", name()}};
      case 3:
        return {{"enum", {name(), 3, nullptr, 1.5, Json5::array({1, "x"})}}};
      case 4: {
        Json5 schema{{"type", "integer"}};
        const auto low = static_cast<int64_t>(below(3000)) - 1500;
        if (maybe()) schema[maybe() ? "minimum" : "exclusiveMinimum"] = low;
        if (maybe()) {
          schema[maybe() ? "maximum" : "exclusiveMaximum"] =
              low + 3 + static_cast<int64_t>(below(2000));
        }
        return schema;
      }
      case 5: {
        Json5 schema{{"type", "number"}};
        const double low = std::floor(static_cast<double>(below(4000)) / 4.0 - 500.0);
        if (maybe()) schema["minimum"] = low + 0.25;
        if (maybe()) schema["maximum"] = low + 2.75 + static_cast<double>(below(900));
        return schema;
      }
      case 6: {
        static const std::vector<std::string> kPatterns{"^[a-z]{2,4}$",
                                                        "^\\d{3}-\\d{2}$",
                                                        "^(yes|no|maybe)$",
                                                        "^[^a-z]+$",
                                                        "[A-Z]",
                                                        "^a.c$",
                                                        "^\\w+@\\w+\\.com$",
                                                        "^(ab)*c?$",
                                                        "^[\"\\\\x]+$",
                                                        "^[\\w.-]{1,3}(,\\s?[0-9]+)*$"};
        return {{"type", "string"}, {"pattern", kPatterns[below(kPatterns.size())]}};
      }
      case 7:
        uses_tree_ = true;
        return {{"$ref", "#/$defs/tree"}};
      default: {
        Json5 schema{{"type", "string"}};
        const uint64_t least = below(3);
        if (maybe()) schema["minLength"] = least;
        if (maybe()) schema["maxLength"] = least + below(5);
        return schema;
      }
    }
  }

  Json5 object(int depth) {
    Json5 schema{{"type", "object"}};
    Json5 required = Json5::array();
    schema["properties"] = Json5::object();
    for (uint64_t n = below(4); n > 0; --n) {
      const std::string key = name();
      schema["properties"][key] = one(depth - 1);
      if (maybe() && std::find(required.begin(), required.end(), key) == required.end()) {
        required.push_back(key);
      }
    }
    if (!required.empty()) schema["required"] = required;
    switch (below(3)) {
      case 0:
        schema["additionalProperties"] = false;
        break;
      case 1:
        schema["additionalProperties"] = leaf();
        break;
      default:
        break;
    }
    return schema;
  }

  Json5 array(int depth) {
    Json5 schema{{"type", "array"}, {"items", one(depth - 1)}};
    const uint64_t least = below(3);
    if (maybe()) schema["minItems"] = least;
    if (maybe()) schema["maxItems"] = least + below(3);
    if (below(4) == 0) {
      schema["prefixItems"] = {leaf(), leaf()};
    }
    return schema;
  }

  Json5 one(int depth) {
    if (depth <= 0) {
      return leaf();
    }
    switch (below(8)) {
      case 0:
        return {{"anyOf", {one(depth - 1), leaf()}}};
      case 1:
        return {{"oneOf",
                 {{{"type", "string"}, {"maxLength", 3}},
                  {{"type", "integer"}},
                  object_tagged("p", depth),
                  object_tagged("q", depth)}}};
      case 2:
        return {{"allOf",
                 {{{"type", "object"}, {"properties", {{"a", leaf()}}}},
                  {{"properties", {{"z", leaf()}}}, {"required", {"z"}}}}}};
      case 3:
        return {{"type", {"string", "null", "integer"}}};
      case 4:
        return array(depth);
      case 5:
        return leaf();
      default:
        return object(depth);
    }
  }

  Json5 object_tagged(const std::string& tag, int depth) {
    return {{"type", "object"},
            {"properties", {{"kind", {{"const", tag}}}, {"v", one(depth - 2)}}},
            {"required", {"kind"}},
            {"additionalProperties", false}};
  }

  Random random_;
  bool uses_tree_ = false;
};

}  // namespace heed::test
