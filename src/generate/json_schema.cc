#include "generate/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "heed/generate.h"
#include "heed/io.h"

namespace heed {
namespace {

constexpr int kDeepest = 128;                   // schemas within each other
constexpr size_t kMostWork = size_t{1} << 22;   // values copied or compared: about a second
constexpr double kLargest = 999999999999999.0;  // 15 digits: exact as a double

const std::array<const char*, 7> kTypes{"object", "array",   "string", "integer",
                                        "number", "boolean", "null"};

std::string join(const std::string& path, const std::string& key) { return path + "/" + key; }

bool has(const Schema& schema, const char* key) { return schema.contains(key); }

/// The types that a schema speaks of where it names none: a keyword says nothing of other types.
std::vector<std::string> implied_types(const Schema& schema) {
  for (const auto& [type, keywords] :
       std::initializer_list<std::pair<const char*, std::vector<const char*>>>{
           {"object", {"properties", "required", "additionalProperties"}},
           {"array", {"items", "prefixItems", "minItems", "maxItems"}},
           {"string", {"minLength", "maxLength", "pattern"}},
           {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}}}) {
    for (const char* keyword : keywords) {
      if (has(schema, keyword)) {
        return {type};
      }
    }
  }
  return {};
}

GrammarNodePtr digits(int64_t count) { return repeat_node(chars_node({{'0', '9'}}), count, count); }

/// Formats that have a grammar; null for the others, which are notes for the reader.
GrammarNodePtr format_node(const std::string& format) {
  GrammarNodePtr date =
      sequence_node({digits(4), literal_node("-"),
                     choice_node({sequence_node({literal_node("0"), chars_node({{'1', '9'}})}),
                                  sequence_node({literal_node("1"), chars_node({{'0', '2'}})})}),
                     literal_node("-"),
                     choice_node({sequence_node({literal_node("0"), chars_node({{'1', '9'}})}),
                                  sequence_node({literal_node("1"), chars_node({{'0', '9'}})}),
                                  sequence_node({literal_node("2"), chars_node({{'0', '8'}})})})});
  const GrammarNodePtr sixty = sequence_node({chars_node({{'0', '5'}}), digits(1)});
  const GrammarNodePtr hour =
      choice_node({sequence_node({chars_node({{'0', '1'}}), digits(1)}),
                   sequence_node({literal_node("2"), chars_node({{'0', '3'}})})});
  GrammarNodePtr time = sequence_node(
      {hour, literal_node(":"), sixty, literal_node(":"), sixty,
       optional_node(
           sequence_node({literal_node("."), repeat_node(chars_node({{'0', '9'}}), 1, 6)})),
       choice_node({literal_node("Z"), sequence_node({chars_node({{'+', '+'}, {'-', '-'}}), hour,
                                                      literal_node(":"), sixty})})});
  if (format == "date") {
    return date;
  }
  if (format == "time") {
    return time;
  }
  if (format == "date-time") {
    return sequence_node({date, literal_node("T"), time});
  }
  if (format == "uuid") {
    const auto hex = [](int64_t n) {
      return repeat_node(chars_node({{'0', '9'}, {'a', 'f'}}), n, n);
    };
    return sequence_node({hex(8), literal_node("-"), hex(4), literal_node("-"), hex(4),
                          literal_node("-"), hex(4), literal_node("-"), hex(12)});
  }
  return nullptr;
}

}  // namespace

void SchemaCompiler::refuse(const std::string& path, const std::string& why) const {
  if (path.empty()) {
    fail(ErrorKind::data, name_, "the schema: {}", why);
  }
  fail(ErrorKind::data, name_, "{}: {}", path, why);
}

/// A schema comes from anywhere: one that unfolds to more than can be compiled in about a second is
/// refused, whatever multiplies it.
void SchemaCompiler::charge(size_t work, const std::string& path) {
  work_ += work + path.size() / 64;
  if (work_ > kMostWork) {
    refuse(path, "the schema is too large: its parts multiply each other");
  }
}

/// What is not known might rule values out: better to say so than to write what does not validate.
void SchemaCompiler::check_keywords(const Schema& schema, const std::string& path) const {
  static const std::set<std::string> kSupported{
      "type", "enum", "const", "properties", "required", "additionalProperties", "items",
      "prefixItems", "additionalItems", "minItems", "maxItems", "minLength", "maxLength", "pattern",
      "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "anyOf", "oneOf",
      "allOf", "$ref", "$defs", "definitions",
      // Notes for the reader
      "title", "description", "default", "examples", "$schema", "$id", "$comment", "$anchor",
      "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "nullable"};
  for (const auto& [key, value] : schema.items()) {
    const bool harmless = (key == "uniqueItems" && value == false) || key.starts_with("x-");
    if (!kSupported.contains(key) && !harmless) {
      refuse(join(path, key), "this keyword is not supported");
    }
  }
}

int64_t SchemaCompiler::count(const Schema& schema, const char* keyword, const std::string& path,
                              int64_t otherwise) const {
  if (!has(schema, keyword)) {
    return otherwise;
  }
  const Schema& value = schema.at(keyword);
  if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > 65536 ||
      value.get<double>() != std::floor(value.get<double>())) {
    refuse(join(path, keyword), "a whole number from 0 to 65536 is expected");
  }
  return static_cast<int64_t>(value.get<double>());
}

GrammarNodePtr SchemaCompiler::constants(const Schema& schema, const std::string& path) {
  const char* keyword = has(schema, "const") ? "const" : "enum";
  const Schema values =
      has(schema, "const") ? Schema::array({schema.at("const")}) : schema.at("enum");
  if (!values.is_array() || values.empty()) {
    refuse(join(path, keyword), "a list of values is expected");
  }
  Schema others = schema;
  others.erase(keyword);
  charge(values.size() * (1 + weight_of(others) / 4), path);
  std::vector<GrammarNodePtr> choices;
  for (const Schema& value : values) {
    if (!are_disjoint(others, Schema{{"const", value}})) {
      choices.push_back(literal_node(value.dump()));
    }
  }
  if (choices.empty()) {
    refuse(join(path, keyword), "no value has the type that the schema asks for");
  }
  return choice_node(std::move(choices));
}

GrammarNodePtr SchemaCompiler::reference(const std::string& target, const std::string& path,
                                         int depth) {
  const auto known = references_.find(target);
  if (known != references_.end()) {
    return rule_node(known->second);
  }
  if (!target.starts_with("#/")) {  // "#" is known from the beginning
    refuse(path, fmt::format("'{}' points outside the schema; only #/… is supported", target));
  }
  const Schema* found = nullptr;
  try {
    found = &root_.at(Schema::json_pointer(target.substr(1)));
  } catch (const Schema::exception&) {
    refuse(path, fmt::format("there is no '{}' in the schema", target));
  }
  const uint32_t rule = builder_.declare(target);
  references_.emplace(target, rule);
  builder_.define(rule, node_for(*found, target, depth + 1));
  return rule_node(rule);
}

GrammarNodePtr SchemaCompiler::alternatives(const Schema& schema, const char* keyword,
                                            const std::string& path, int depth) {
  const Schema& list = schema.at(keyword);
  if (!list.is_array() || list.empty()) {
    refuse(join(path, keyword), "a list of schemas is expected");
  }
  Schema around = schema;
  around.erase(keyword);
  const size_t weight_around = weight_of(around);
  std::vector<size_t> weights;
  for (const Schema& each : list) {
    weights.push_back(weight_of(each));
  }
  std::vector<GrammarNodePtr> choices;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string here = join(join(path, keyword), std::to_string(i));
    charge(weight_around + weights[i], here);
    for (size_t j = 0; j < i && std::string_view(keyword) == "oneOf"; ++j) {
      charge(1 + (weights[i] + weights[j]) / 16, here);
      if (!are_disjoint(list[i], list[j])) {
        refuse(here, fmt::format("this alternative of oneOf and number {} may fit the same value; "
                                 "write anyOf, or give both a property with different constants",
                                 j));
      }
    }
    try {
      choices.push_back(
          node_for(around.empty() ? list[i] : merged_schemas(around, list[i]), here, depth + 1));
    } catch (const std::string& why) {
      refuse(here, why);
    }
  }
  return choice_node(std::move(choices));
}

GrammarNodePtr SchemaCompiler::node_for(const Schema& schema, const std::string& path, int depth) {
  if (depth > kDeepest) {
    refuse(path, "schemas are nested too deeply");
  }
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) {
      refuse(path, "false allows no value");
    }
    return json_.value();
  }
  if (!schema.is_object()) {
    refuse(path, "a schema is an object, true or false");
  }
  charge(weight_of(schema), path);
  check_keywords(schema, path);
  if (has(schema, "$ref")) {
    static const std::set<std::string> kNotes{"$ref",     "$defs",    "definitions", "$schema",
                                              "$id",      "title",    "description", "default",
                                              "examples", "$comment", "deprecated"};
    for (const auto& [key, value] : schema.items()) {
      if (!kNotes.contains(key)) {
        refuse(join(path, key), "beside $ref this keyword is not supported");
      }
    }
    if (!schema.at("$ref").is_string()) {
      refuse(join(path, "$ref"), "a string is expected");
    }
    return reference(schema.at("$ref").get<std::string>(), join(path, "$ref"), depth);
  }
  if (has(schema, "allOf")) {
    Schema all = schema;
    all.erase("allOf");
    try {
      for (const Schema& part : schema.at("allOf")) {
        charge(weight_of(all) + weight_of(part), path);
        all = merged_schemas(all, part);
      }
    } catch (const std::string& why) {
      refuse(join(path, "allOf"), why);
    }
    return node_for(all, path, depth + 1);
  }
  if (has(schema, "anyOf")) {
    return alternatives(schema, "anyOf", path, depth);
  }
  if (has(schema, "oneOf")) {
    return alternatives(schema, "oneOf", path, depth);
  }
  if (has(schema, "const") || has(schema, "enum")) {
    return constants(schema, path);
  }
  return node_for_types(schema, path, depth);
}

GrammarNodePtr SchemaCompiler::node_for_types(const Schema& schema, const std::string& path,
                                              int depth) {
  std::vector<std::string> types;
  if (!has(schema, "type")) {
    types = implied_types(schema);
    if (types.empty()) {
      return json_.value();
    }
  } else if (schema.at("type").is_string()) {
    types.push_back(schema.at("type").get<std::string>());
  } else {
    for (const Schema& type : schema.at("type")) {
      types.push_back(type.is_string() ? type.get<std::string>() : std::string());
    }
  }
  if (schema.value("nullable", Schema(false)) == true) {  // OpenAPI 3.0's word for it
    types.emplace_back("null");
  }
  std::vector<GrammarNodePtr> choices;
  for (const std::string& type : types) {
    if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
      refuse(join(path, "type"), fmt::format("there is no type '{}'", type));
    }
    choices.push_back(node_for_type(type, schema, path, depth));
  }
  if (choices.empty()) {
    refuse(join(path, "type"), "the list is empty");
  }
  return choices.size() == 1 ? choices.front() : choice_node(std::move(choices));
}

GrammarNodePtr SchemaCompiler::node_for_type(const std::string& type, const Schema& schema,
                                             const std::string& path, int depth) {
  if (type == "null") {
    return literal_node("null");
  }
  if (type == "boolean") {
    return choice_node({literal_node("true"), literal_node("false")});
  }
  if (type == "string") {
    return string_node(schema, path);
  }
  if (type == "integer" || type == "number") {
    return number_node(schema, path, type == "integer");
  }
  return type == "array" ? array_node(schema, path, depth) : object_node(schema, path, depth);
}

GrammarNodePtr SchemaCompiler::string_node(const Schema& schema, const std::string& path) {
  const int64_t least = count(schema, "minLength", path, 0);
  const int64_t most = count(schema, "maxLength", path, -1);
  if (most != -1 && most < least) {
    refuse(join(path, "maxLength"), "is less than minLength");
  }
  const bool bounded = least > 0 || most != -1;
  if (has(schema, "pattern")) {
    if (bounded) {
      refuse(join(path, "pattern"),
             "together with minLength or maxLength this keyword is not supported");
    }
    try {
      return JsonGrammar::quoted(pattern_node(schema.at("pattern").get<std::string>(), json_));
    } catch (const std::string& why) {
      refuse(join(path, "pattern"), why);
    }
  }
  if (has(schema, "format") && schema.at("format").is_string() && !bounded) {
    if (const GrammarNodePtr node = format_node(schema.at("format").get<std::string>())) {
      return JsonGrammar::quoted(node);
    }
  }
  return json_.string(least, most);
}

GrammarNodePtr SchemaCompiler::number_node(const Schema& schema, const std::string& path,
                                           bool whole) {
  double low = -kLargest;
  double high = kLargest;
  bool low_open = false;
  bool high_open = false;
  bool bounded = false;
  const auto read = [&](const char* keyword, bool lower, bool open) {
    if (!has(schema, keyword)) {
      return;
    }
    if (!schema.at(keyword).is_number()) {
      refuse(join(path, keyword), "a number is expected");
    }
    const double value = schema.at(keyword).get<double>();
    bounded = true;
    double& bound = lower ? low : high;
    bool& is_open = lower ? low_open : high_open;
    if (lower ? value >= bound : value <= bound) {  // an open bound is read after a closed one
      bound = value;
      is_open = open;
    }
  };
  read("minimum", true, false);
  read("exclusiveMinimum", true, true);
  read("maximum", false, false);
  read("exclusiveMaximum", false, true);
  if (!bounded) {
    return whole ? JsonGrammar::integer() : JsonGrammar::number();
  }
  auto first = static_cast<int64_t>(std::clamp(std::ceil(low), -kLargest, kLargest));
  auto last = static_cast<int64_t>(std::clamp(std::floor(high), -kLargest, kLargest));
  first += low_open && static_cast<double>(first) == low ? 1 : 0;
  last -= high_open && static_cast<double>(last) == high ? 1 : 0;
  if (first > last) {
    refuse(path, "no whole number lies within the bounds; such a range is not supported");
  }
  std::vector<GrammarNodePtr> choices{JsonGrammar::integer_between(first, last)};
  const GrammarNodePtr fraction =
      sequence_node({literal_node("."), repeat_node(chars_node({{'0', '9'}}), 1, 16)});
  // n.… lies in [n, n + 1), -n.… in (-n - 1, -n]: both whole numbers must be within the bounds.
  if (!whole && last - 1 >= std::max<int64_t>(first, 0)) {
    choices.push_back(sequence_node(
        {JsonGrammar::integer_between(std::max<int64_t>(first, 0), last - 1), fraction}));
  }
  if (!whole && first + 1 <= std::min<int64_t>(last, -1)) {
    choices.push_back(sequence_node(
        {JsonGrammar::integer_between(first + 1, std::min<int64_t>(last, -1)), fraction}));
  }
  if (!whole && first <= -1 && last >= 0) {
    choices.push_back(sequence_node({literal_node("-0"), fraction}));
  }
  return choice_node(std::move(choices));
}

GrammarRules SchemaCompiler::compile() {
  const uint32_t root = builder_.declare("the schema");
  references_.emplace("#", root);
  builder_.define(root, node_for(root_, "", 0));
  return builder_.build(root);
}

Grammar Grammar::from_json_schema(std::string_view schema, std::string_view name) {
  Json::parse(schema, std::string(name));  // checks limits and says what is wrong
  Schema parsed = Schema::parse(schema);
  try {
    return Grammar(std::make_shared<GrammarRules>(
        SchemaCompiler(std::move(parsed), std::string(name)).compile()));
  } catch (const Schema::exception&) {
    fail(ErrorKind::data, name, "a keyword has a value of a wrong type");
  }
}

}  // namespace heed
