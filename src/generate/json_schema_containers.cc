#include <fmt/format.h>

#include <algorithm>

#include "generate/json_schema.h"

namespace heed {

GrammarNodePtr SchemaCompiler::array_node(const Schema& schema, const std::string& path,
                                          int depth) {
  const int64_t least = count(schema, "minItems", path, 0);
  const int64_t most = count(schema, "maxItems", path, -1);
  if (most != -1 && most < least) {
    refuse(path + "/maxItems", "is less than minItems");
  }
  // Until draft 2019-09 the schemas of the first items were a list in `items`, and that of the
  // others was `additionalItems`.
  const bool older = schema.contains("items") && schema.at("items").is_array();
  const std::string prefix_key = older ? "items" : "prefixItems";
  const std::string rest_key = older ? "additionalItems" : "items";
  std::vector<GrammarNodePtr> first;  // schemas of the first items
  if (schema.contains(prefix_key)) {
    const Schema& list = schema.at(prefix_key);
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = fmt::format("{}/{}/{}", path, prefix_key, i);
      first.push_back(node_for(list[i], place, depth + 1));
    }
  }
  const Schema items = schema.value(rest_key, Schema(true));
  const bool closed = items == false;
  const GrammarNodePtr rest = closed ? nullptr : node_for(items, path + "/" + rest_key, depth + 1);
  const auto fixed = static_cast<int64_t>(first.size());
  if (closed && least > fixed) {
    refuse(path + "/minItems", fmt::format("is more than {} allow", prefix_key));
  }
  // From the last item backwards: what follows the item with index i, a comma in front included.
  GrammarNodePtr tail = literal_node("");
  if (!closed) {
    const int64_t from = std::max<int64_t>(least - fixed, 0);
    const int64_t to = most == -1 ? -1 : std::max<int64_t>(most - fixed, 0);
    tail = repeat_node(sequence_node({json_.comma(), rest}), from, to);
  }
  if (fixed == 0) {
    if (closed || most == 0) {
      return json_.between('[', literal_node(""), ']');
    }
    const int64_t more = most == -1 ? -1 : most - 1;
    const GrammarNodePtr some =
        sequence_node({rest, repeat_node(sequence_node({json_.comma(), rest}),
                                         std::max<int64_t>(least - 1, 0), more)});
    return json_.between('[', least > 0 ? some : optional_node(some), ']');
  }
  for (int64_t i = fixed - 1; i >= 0; --i) {
    const bool possible = most == -1 || i < most;
    if (!possible) {
      tail = literal_node("");
      continue;
    }
    const GrammarNodePtr comma = i > 0 ? json_.comma() : literal_node("");
    // A rule per item: expressions within each other would be as deep as the list is long.
    const uint32_t here = builder_.declare(fmt::format("{}/{}/{}", path, prefix_key, i));
    builder_.define(here, sequence_node({comma, first[static_cast<size_t>(i)], tail}));
    tail = i < least ? rule_node(here) : optional_node(rule_node(here));
  }
  return json_.between('[', tail, ']');
}

GrammarNodePtr SchemaCompiler::object_node(const Schema& schema, const std::string& path,
                                           int depth) {
  const Schema properties = schema.value("properties", Schema::object());
  if (!properties.is_object()) {
    refuse(path + "/properties", "an object is expected");
  }
  std::vector<std::string> names;
  std::map<std::string, const Schema*> known;  // an ordered object is searched from its beginning
  for (const auto& [name, property] : properties.items()) {
    names.push_back(name);
    known.emplace(name, &property);
  }
  std::set<std::string> required;
  const Schema others = schema.value("additionalProperties", Schema(true));
  std::vector<std::string> extra;  // required, and not among the properties
  for (const Schema& name : schema.value("required", Schema::array())) {
    if (!name.is_string()) {
      refuse(path + "/required", "a list of strings is expected");
    }
    if (required.insert(name.get<std::string>()).second &&
        !known.contains(name.get<std::string>())) {
      extra.push_back(name.get<std::string>());
    }
  }
  if (!extra.empty() && others == false) {
    refuse(path + "/required", fmt::format("'{}' is required and not allowed", extra.front()));
  }
  names.insert(names.end(), extra.begin(), extra.end());
  // Two chains of rules: with a comma in front, where a member came before, and without.
  GrammarNodePtr first = literal_node("");
  GrammarNodePtr rest = literal_node("");
  if (others != false) {
    for (const std::string& name : names) {
      if (name.size() > JsonGrammar::kLongestKey) {
        refuse(
            path + "/properties",
            fmt::format("a name has {} bytes; at most {} are supported where additionalProperties "
                        "is not false",
                        name.size(), JsonGrammar::kLongestKey));
      }
      charge(1 + name.size() / 4, path);
    }
    const GrammarNodePtr one = json_.member(
        JsonGrammar::other_key(names), node_for(others, path + "/additionalProperties", depth + 1));
    rest = repeat_node(sequence_node({json_.comma(), one}), 0, -1);
    first = optional_node(sequence_node({one, rest}));
  }
  for (size_t i = names.size(); i-- > 0;) {
    const std::string& name = names[i];
    const auto found = known.find(name);
    const GrammarNodePtr value =
        found != known.end()
            ? node_for(*found->second, fmt::format("{}/properties/{}", path, name), depth + 1)
            : node_for(others, path + "/additionalProperties", depth + 1);
    const uint32_t member = builder_.declare(name);
    builder_.define(member, json_.member(literal_node(Schema(name).dump()), value));
    const uint32_t behind = builder_.declare(name);  // this member or those after it, with a comma
    const uint32_t begin = builder_.declare(name);
    const GrammarNodePtr with_comma = sequence_node({json_.comma(), rule_node(member), rest});
    const GrammarNodePtr without = sequence_node({rule_node(member), rest});
    const bool must = required.contains(name);
    builder_.define(behind, must ? with_comma : choice_node({with_comma, rest}));
    builder_.define(begin, must ? without : choice_node({without, first}));
    rest = rule_node(behind);
    first = rule_node(begin);
  }
  return json_.between('{', first, '}');
}

}  // namespace heed
