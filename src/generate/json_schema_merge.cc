#include <fmt/format.h>

#include <algorithm>

#include "generate/json_schema.h"

namespace heed {
namespace {

std::string type_of(const Schema& value) {
  switch (value.type()) {
    case Schema::value_t::object:
      return "object";
    case Schema::value_t::array:
      return "array";
    case Schema::value_t::string:
      return "string";
    case Schema::value_t::boolean:
      return "boolean";
    case Schema::value_t::null:
      return "null";
    default:
      return value.is_number_integer() ? "integer" : "number";
  }
}

/// The types that a schema allows; empty: all.
std::set<std::string> types_of(const Schema& schema) {
  std::set<std::string> types;
  if (!schema.is_object()) {
    return types;
  }
  if (schema.contains("const")) {
    return {type_of(schema.at("const"))};
  }
  if (schema.contains("enum")) {
    for (const Schema& value : schema.at("enum")) {
      types.insert(type_of(value));
    }
    return types;
  }
  if (schema.contains("type")) {
    const Schema& type = schema.at("type");
    for (const Schema& each : type.is_array() ? type : Schema::array({type})) {
      types.insert(each.is_string() ? each.get<std::string>() : std::string());
    }
  }
  return types;
}

bool types_overlap(const std::set<std::string>& a, const std::set<std::string>& b) {
  const auto fits = [](const std::string& type, const std::set<std::string>& types) {
    return types.contains(type) || (type == "integer" && types.contains("number")) ||
           (type == "number" && types.contains("integer"));
  };
  return a.empty() || b.empty() ||
         std::any_of(a.begin(), a.end(), [&](const auto& type) { return fits(type, b); });
}

/// The values that a schema allows, where it lists them.
std::vector<Schema> listed_values(const Schema& schema) {
  if (schema.is_object() && schema.contains("const")) {
    return {schema.at("const")};
  }
  if (schema.is_object() && schema.contains("enum")) {
    return {schema.at("enum").begin(), schema.at("enum").end()};
  }
  return {};
}

/// The names of `required` or the keys of `properties`; of what is neither, none.
std::set<std::string> names_of(const Schema& schema, const char* keyword) {
  std::set<std::string> names;
  if (schema.contains(keyword) && schema.at(keyword).is_object()) {
    for (const auto& [name, value] : schema.at(keyword).items()) {
      names.insert(name);
    }
  } else if (schema.contains(keyword)) {
    for (const Schema& name : schema.at(keyword)) {
      if (name.is_string()) {
        names.insert(name.get<std::string>());
      }
    }
  }
  return names;
}

Schema merged_types(const Schema& a, const Schema& b) {
  Schema both = Schema::array();
  const auto list = [](const Schema& type) {
    return type.is_array() ? type : Schema::array({type});
  };
  for (const Schema& one : list(a)) {
    for (const Schema& other : list(b)) {
      if (one == other || (one == "integer" && other == "number")) {
        both.push_back(one);
      } else if (one == "number" && other == "integer") {
        both.push_back(other);
      }
    }
  }
  if (both.empty()) {
    refuse_schema("no type fits all of it");
  }
  return both.size() == 1 ? both.front() : both;
}

Schema merged_member(const std::string& key, const Schema& a, const Schema& b) {
  if (a == b) {
    return a;
  }
  if (key == "properties" || key == "$defs" || key == "definitions") {
    // Looked up by name in an index: an ordered object is searched from its beginning.
    Schema::object_t all = a.get_ref<const Schema::object_t&>();
    std::map<std::string, size_t> places;
    for (const auto& [name, value] : all) {
      places.emplace(name, places.size());
    }
    for (const auto& [name, value] : b.get_ref<const Schema::object_t&>()) {
      const auto [place, added] = places.emplace(name, all.size());
      if (added) {
        all.emplace_back(name, value);
      } else {
        auto& member = all.begin()[static_cast<std::ptrdiff_t>(place->second)].second;
        member = merged_schemas(member, value);
      }
    }
    return all;
  }
  if (key == "required") {
    Schema all = a;
    std::set<Schema> known(a.begin(), a.end());
    for (const Schema& name : b) {
      if (known.insert(name).second) {
        all.push_back(name);
      }
    }
    return all;
  }
  if (key == "type") {
    return merged_types(a, b);
  }
  if (key.starts_with("min") || key == "exclusiveMinimum") {
    return a.get<double>() > b.get<double>() ? a : b;
  }
  if (key.starts_with("max") || key == "exclusiveMaximum") {
    return a.get<double>() < b.get<double>() ? a : b;
  }
  if (key == "title" || key == "description" || key == "default" || key == "examples" ||
      key == "$comment") {
    return b;
  }
  refuse_schema(fmt::format("two different '{}' cannot be joined", key));
}

/// Whether a schema has more than notes and definitions.
bool says_something(const Schema& schema) {
  for (const auto& [key, value] : schema.items()) {
    if (key != "description" && key != "title" && key != "$defs" && key != "definitions" &&
        key != "$schema" && key != "$id") {
      return true;
    }
  }
  return false;
}

}  // namespace

Schema merged_schemas(const Schema& a, const Schema& b) {
  if (a == true || b == true) {
    return a == true ? b : a;
  }
  if (!a.is_object() || !b.is_object()) {
    refuse_schema("false allows no value");
  }
  // The properties of one may be additional ones of the other.
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (one->contains("additionalProperties") && one->at("additionalProperties") != true) {
      const std::set<std::string> known = names_of(*one, "properties");
      for (const std::string& name : names_of(*other, "properties")) {
        if (!known.contains(name)) {
          refuse_schema(
              fmt::format("additionalProperties of one part does not allow '{}' of another", name));
        }
      }
    }
  }
  Schema all = a;
  for (const auto& [key, value] : b.items()) {
    if ((key == "$ref" || key == "allOf" || key == "anyOf" || key == "oneOf") &&
        says_something(a)) {
      refuse_schema(fmt::format("'{}' cannot be joined with other keywords", key));
    }
    all[key] = all.contains(key) ? merged_member(key, all.at(key), value) : value;
  }
  return all;
}

size_t weight_of(const Schema& schema) {
  constexpr size_t kBytesPerValue = 64;
  if (schema.is_string()) {
    return 1 + schema.get_ref<const std::string&>().size() / kBytesPerValue;
  }
  size_t weight = 1;
  if (schema.is_object()) {
    for (const auto& [name, value] : schema.get_ref<const Schema::object_t&>()) {
      weight += weight_of(value) + name.size() / kBytesPerValue;
    }
  } else if (schema.is_array()) {
    for (const Schema& value : schema) {
      weight += weight_of(value);
    }
  }
  return weight;
}

bool are_disjoint(const Schema& a, const Schema& b) {
  if (a == false || b == false) {
    return true;
  }
  if (!types_overlap(types_of(a), types_of(b))) {
    return true;
  }
  const std::vector<Schema> first = listed_values(a);
  const std::vector<Schema> second = listed_values(b);
  if (!first.empty() && !second.empty()) {
    const std::set<Schema> values(second.begin(), second.end());
    return std::none_of(first.begin(), first.end(),
                        [&](const Schema& value) { return values.contains(value); });
  }
  if (!a.is_object() || !b.is_object() || types_of(a) != std::set<std::string>{"object"} ||
      types_of(b) != std::set<std::string>{"object"}) {
    return false;
  }
  const std::set<std::string> required = names_of(a, "required");
  for (const std::string& name : names_of(b, "required")) {
    if (required.contains(name) && a.contains("properties") && b.contains("properties") &&
        a.at("properties").contains(name) && b.at("properties").contains(name) &&
        are_disjoint(a.at("properties").at(name), b.at("properties").at(name))) {
      return true;
    }
  }
  return false;
}

}  // namespace heed
