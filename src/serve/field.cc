#include "serve/field.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heed::serve {

Field boolean_field(std::string name, std::string fallback, std::string description) {
  Field field{std::move(name), FieldType::boolean, std::move(description)};
  field.fallback = std::move(fallback);
  return field;
}
Field integer_field(std::string name, double low, double high, std::string fallback,
                    std::string description) {
  Field field{std::move(name), FieldType::integer, std::move(description), low, high};
  field.fallback = std::move(fallback);
  return field;
}
Field number_field(std::string name, double low, double high, std::string fallback,
                   std::string description) {
  Field field{std::move(name), FieldType::number, std::move(description), low, high};
  field.fallback = std::move(fallback);
  return field;
}
Field string_field(std::string name, double most_bytes, std::string description) {
  return {std::move(name), FieldType::string, std::move(description), 0, most_bytes};
}
Field choice_field(std::string name, std::vector<std::string> choices, std::string fallback,
                   std::string description) {
  Field field{std::move(name), FieldType::string, std::move(description), 0, 64};
  field.choices = std::move(choices);
  field.fallback = std::move(fallback);
  return field;
}
Field strings_field(std::string name, double most, std::string description) {
  return {std::move(name), FieldType::strings, std::move(description), 0, most};
}
Field list_field(std::string name, double most, std::string description) {
  return {std::move(name), FieldType::list, std::move(description), 0, most};
}
Field object_field(std::string name, std::vector<Field> members, std::string description) {
  Field field{std::move(name), FieldType::object, std::move(description)};
  field.members = std::move(members);
  return field;
}
Field objects_field(std::string name, double most, std::vector<Field> members,
                    std::string description) {
  Field field{std::move(name), FieldType::objects, std::move(description), 0, most};
  field.members = std::move(members);
  return field;
}
Field any_field(std::string name, std::vector<std::string> shapes, std::string description) {
  Field field{std::move(name), FieldType::any, std::move(description)};
  field.shapes = std::move(shapes);
  return field;
}
Field number_map_field(std::string name, double low, double high, double most,
                       std::string description) {
  Field field{std::move(name), FieldType::number_map, std::move(description), low, high};
  field.item_high = most;
  return field;
}

namespace {

/// 1048576, not 1.04858e+06.
std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e18
             ? std::to_string(static_cast<int64_t>(value))
             : fmt::format("{}", value);
}

/// A value as it stands in a message: its beginning, where it is long.
std::string shown(const Json& value) {
  if (value.is_object() || value.is_array()) {
    return value.is_object() ? "an object" : "a list";
  }
  const std::string text = value.dump();
  return text.size() <= 40 ? text : text.substr(0, 1) == "\"" ? "a string" : "a number";
}

[[noreturn]] void refuse(const std::string& path, const Json& value, const std::string& wanted) {
  throw BadRequest(fmt::format("'{}' is {}; {} is wanted", path, shown(value), wanted), path);
}

void check_number(const Field& field, const Json& value, const std::string& path) {
  const bool integer = field.type == FieldType::integer;
  const std::string wanted =
      fmt::format("{} from {} to {}", integer ? "a whole number" : "a number",
                  number_text(field.low), number_text(field.high));
  if (!value.is_number() || (integer && !value.is_integer())) {
    refuse(path, value, wanted);
  }
  // A double holds every bound exactly; an integer beyond 2^53 rounds to one that is out of range.
  const double number = value.number();
  if (!(number >= field.low && number <= field.high)) {
    refuse(path, value, wanted);
  }
}

void check_string(const Field& field, const Json& value, const std::string& path) {
  if (!value.is_string()) {
    refuse(path, value,
           field.choices.empty() ? "a string"
                                 : fmt::format("one of {}", fmt::join(field.choices, ", ")));
  }
  const std::string& text = value.string_ref();
  if (static_cast<double>(text.size()) > field.high) {
    throw BadRequest(fmt::format("'{}' has {} bytes; at most {} are allowed", path, text.size(),
                                 number_text(field.high)),
                     path);
  }
  if (!field.choices.empty() &&
      std::find(field.choices.begin(), field.choices.end(), text) == field.choices.end()) {
    refuse(path, value, fmt::format("one of {}", fmt::join(field.choices, ", ")));
  }
}

void check_count(const Field& field, const Json& value, const std::string& path) {
  if (static_cast<double>(value.size()) < field.low) {
    throw BadRequest(fmt::format("'{}' has {} items; at least {} are wanted", path, value.size(),
                                 number_text(field.low)),
                     path);
  }
  if (static_cast<double>(value.size()) > field.high) {
    throw BadRequest(fmt::format("'{}' has {} items; at most {} are allowed", path, value.size(),
                                 number_text(field.high)),
                     path);
  }
}

void check_strings(const Field& field, const Json& value, const std::string& path) {
  if (!value.is_string() && !value.is_array()) {
    refuse(path, value, "a string or a list of strings");
  }
  if (value.is_string()) {
    return;
  }
  check_count(field, value, path);
  for (const Json& item : value.elements()) {
    if (!item.is_string()) {
      throw BadRequest(fmt::format("'{}' holds {}; every item must be a string", path, shown(item)),
                       path);
    }
    if (static_cast<double>(item.string_ref().size()) > field.item_high) {
      throw BadRequest(fmt::format("an item of '{}' has {} bytes; at most {} are allowed", path,
                                   item.string_ref().size(), number_text(field.item_high)),
                       path);
    }
  }
}

void check_number_map(const Field& field, const Json& value, const std::string& path) {
  if (!value.is_object()) {
    refuse(path, value, "an object of numbers");
  }
  if (static_cast<double>(value.size()) > field.item_high) {
    throw BadRequest(fmt::format("'{}' has {} members; at most {} are allowed", path, value.size(),
                                 number_text(field.item_high)),
                     path);
  }
  value.for_each([&](const std::string&, const Json& item) {
    if (!item.is_number() || !(item.number() >= field.low && item.number() <= field.high)) {
      throw BadRequest(fmt::format("'{}' holds {}; numbers from {} to {} are wanted", path,
                                   shown(item), number_text(field.low), number_text(field.high)),
                       path);
    }
  });
}

}  // namespace

void validate_field(const Field& field, const Json& value, const std::string& path) {
  switch (field.type) {
    case FieldType::boolean:
      value.is_boolean() ? void() : refuse(path, value, "true or false");
      break;
    case FieldType::integer:
    case FieldType::number:
      check_number(field, value, path);
      break;
    case FieldType::string:
      check_string(field, value, path);
      break;
    case FieldType::strings:
      check_strings(field, value, path);
      break;
    case FieldType::object:
      value.is_object() ? void() : refuse(path, value, "an object");
      validate_object(field.members, value, path);
      break;
    case FieldType::objects:
      value.is_array() ? void() : refuse(path, value, "a list of objects");
      check_count(field, value, path);
      for (size_t i = 0; i < value.size(); ++i) {
        const std::string item = fmt::format("{}[{}]", path, i);
        value[i].is_object() ? void() : refuse(item, value[i], "an object");
        validate_object(field.members, value[i], item);
      }
      break;
    case FieldType::list:
      value.is_array() ? check_count(field, value, path) : refuse(path, value, "a list");
      break;
    case FieldType::number_map:
      check_number_map(field, value, path);
      break;
    case FieldType::any:
      break;
  }
}

std::vector<std::string> validate_object(const std::vector<Field>& fields, const Json& object,
                                         const std::string& path) {
  for (const Field& field : fields) {
    const std::string name = path.empty() ? field.name : path + "." + field.name;
    const std::optional<Json> value = object.find(field.name);
    if (value) {
      validate_field(field, *value, name);
    } else if (field.required) {
      throw BadRequest(fmt::format("'{}' is missing: {}", name, field.description), name,
                       "missing_required_parameter");
    }
  }
  std::vector<std::string> unknown;
  object.for_each([&](const std::string& key, const Json&) {
    const bool known = std::any_of(fields.begin(), fields.end(),
                                   [&](const Field& field) { return field.name == key; });
    if (!known) {
      unknown.push_back(key);
    }
  });
  return unknown;
}

namespace {

const char* schema_type(FieldType type) {
  switch (type) {
    case FieldType::boolean:
      return "boolean";
    case FieldType::integer:
      return "integer";
    case FieldType::number:
      return "number";
    case FieldType::string:
      return "string";
    case FieldType::object:
    case FieldType::number_map:
      return "object";
    case FieldType::objects:
    case FieldType::list:
      return "array";
    default:
      return nullptr;
  }
}

void write_strings_schema(JsonWriter& json, const Field& field) {
  json.key("oneOf").begin_array();
  json.begin_object().field("type", "string").end_object();
  json.begin_object().field("type", "array");
  json.field("maxItems", static_cast<int64_t>(field.high));
  json.key("items").begin_object().field("type", "string").end_object();
  json.end_object();
  if (!field.required) {
    json.begin_object().field("type", "null").end_object();
  }
  json.end_array();
}

/// What a handler takes; null counts as absent.
void write_shapes(JsonWriter& json, const Field& field) {
  json.key("anyOf").begin_array();
  for (const std::string& shape : field.shapes) {
    json.raw(shape);
  }
  if (!field.required) {
    json.begin_object().field("type", "null").end_object();
  }
  json.end_array();
}

void write_item_counts(JsonWriter& json, const Field& field) {
  if (field.low > 0.0) {
    json.key("minItems").raw(number_text(field.low));
  }
  json.key("maxItems").raw(number_text(field.high));
}

/// The values of a choice; null counts as absent.
void write_choices(JsonWriter& json, const Field& field) {
  json.key("enum").begin_array();
  for (const std::string& choice : field.choices) {
    json.value(choice);
  }
  if (!field.required) {
    json.null();
  }
  json.end_array();
}

/// The members of an object, without its braces.
void write_members(JsonWriter& json, const std::vector<Field>& fields) {
  std::vector<std::string> required;
  json.key("properties").begin_object();
  for (const Field& field : fields) {
    json.key(field.name);
    write_schema(json, field);
    if (field.required) {
      required.push_back(field.name);
    }
  }
  json.end_object();
  if (!required.empty()) {
    json.field("required", required);
  }
}

}  // namespace

void write_schema(JsonWriter& json, const Field& field) {
  json.begin_object();
  if (const char* type = schema_type(field.type)) {
    // null counts as absent.
    field.required ? json.field("type", type)
                   : json.field("type", std::vector<std::string>{type, "null"});
  }
  json.field("description", field.description);
  switch (field.type) {
    case FieldType::integer:
    case FieldType::number:
      json.key("minimum").raw(number_text(field.low));
      json.key("maximum").raw(number_text(field.high));
      break;
    case FieldType::string:
      if (!field.choices.empty()) {
        write_choices(json, field);
      } else {
        json.key("maxLength").raw(number_text(field.high));
      }
      break;
    case FieldType::strings:
      write_strings_schema(json, field);
      break;
    case FieldType::object:
      if (!field.members.empty()) {
        write_members(json, field.members);
      }
      break;
    case FieldType::objects:
      write_item_counts(json, field);
      json.key("items");
      write_object_schema(json, field.members);
      break;
    case FieldType::list:
      write_item_counts(json, field);
      break;
    case FieldType::number_map:
      json.key("additionalProperties").begin_object().field("type", "number");
      json.key("minimum").raw(number_text(field.low));
      json.key("maximum").raw(number_text(field.high)).end_object();
      break;
    case FieldType::any:
      write_shapes(json, field);
      break;
    default:
      break;
  }
  if (!field.fallback.empty()) {
    json.key("default").raw(field.fallback);
  }
  json.end_object();
}

void write_object_schema(JsonWriter& json, const std::vector<Field>& fields) {
  json.begin_object().field("type", "object");
  write_members(json, fields);
  json.end_object();
}

}  // namespace heed::serve
