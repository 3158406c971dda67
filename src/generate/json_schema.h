#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generate/json_grammar.h"

namespace heed {

using Schema = nlohmann::ordered_json;  // properties are written in the order of the schema

/// Throws the reason why a schema is refused; SchemaCompiler puts the place in front of it.
[[noreturn]] inline void refuse_schema(std::string why) { throw std::move(why); }

/// A regular expression (ECMA-262's, as far as JSON schemas use it) as the inside of a JSON string.
/// Throws std::string, the reason, where it cannot.
GrammarNodePtr pattern_node(const std::string& pattern, JsonGrammar& json);

/// Both schemas at once, where that can be said in one: allOf, and what stands beside anyOf.
/// Throws std::string, the reason, where it cannot.
Schema merged_schemas(const Schema& a, const Schema& b);

/// How much work it is to copy a schema: its values, long strings and names counting for more.
size_t weight_of(const Schema& schema);

/// Whether no value can fit both schemas, as far as that can be seen: by type, by constants, by
/// constants of a property that both require.
bool are_disjoint(const Schema& a, const Schema& b);

/// Turns JSON schemas into a grammar.
class SchemaCompiler {
 public:
  SchemaCompiler(Schema root, std::string name)
      : root_(std::move(root)), name_(std::move(name)), builder_(name_), json_(builder_) {}

  GrammarRules compile();

 private:
  [[noreturn]] void refuse(const std::string& path, const std::string& why) const;
  GrammarNodePtr node_for(const Schema& schema, const std::string& path, int depth);
  GrammarNodePtr node_for_types(const Schema& schema, const std::string& path, int depth);
  GrammarNodePtr node_for_type(const std::string& type, const Schema& schema,
                               const std::string& path, int depth);
  GrammarNodePtr alternatives(const Schema& schema, const char* keyword, const std::string& path,
                              int depth);
  GrammarNodePtr constants(const Schema& schema, const std::string& path);
  GrammarNodePtr reference(const std::string& target, const std::string& path, int depth);
  GrammarNodePtr string_node(const Schema& schema, const std::string& path);
  GrammarNodePtr number_node(const Schema& schema, const std::string& path, bool whole);
  GrammarNodePtr array_node(const Schema& schema, const std::string& path, int depth);
  GrammarNodePtr object_node(const Schema& schema, const std::string& path, int depth);
  int64_t count(const Schema& schema, const char* keyword, const std::string& path,
                int64_t otherwise) const;
  void check_keywords(const Schema& schema, const std::string& path) const;
  void charge(size_t work, const std::string& path);

  Schema root_;
  std::string name_;
  GrammarBuilder builder_;
  JsonGrammar json_;
  std::map<std::string, uint32_t> references_;
  size_t work_ = 0;
};

}  // namespace heed
