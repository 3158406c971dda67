#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_print.h"
#include "text/jinja_value.h"

namespace heed::text::jinja {

/// Evaluated arguments of a call, a filter or a test.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Null where the argument is absent.
  const Value* find(size_t index, std::string_view name) const;
  /// The argument, or an error that names `callee`.
  const Value& at(size_t index, std::string_view name, std::string_view callee) const;
  bool flag(size_t index, std::string_view name, bool otherwise = false) const;
  /// An integer; `otherwise` where it is absent or None.
  int64_t integer(size_t index, std::string_view name, int64_t otherwise) const;
  /// A string; `otherwise` where it is absent or None.
  std::string string(size_t index, std::string_view name, std::string_view otherwise) const;
};

Value apply_filter(Budget& budget, std::string_view name, const Value& input,
                   const CallArguments& arguments);
bool apply_test(Budget& budget, std::string_view name, const Value& input,
                const CallArguments& arguments);

/// One entry of a table of filters.
using Filter = Value (*)(Budget&, const Value&, const CallArguments&);
/// Null where the table has no such name. The three tables are apply_filter()'s.
Filter find_string_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);

/// Whether Python gives this value a method of this name that does not change it.
bool has_method(const Value& self, std::string_view name);
Value call_method(Budget& budget, const Value& self, const std::string& name,
                  const CallArguments& arguments);
Value call_string_method(Budget& budget, const std::string& self, std::string_view name,
                         const CallArguments& arguments);
bool has_string_method(std::string_view name);

/// value.name: a method or attribute first, then an item; undefined where there is neither.
Value get_attribute(Budget& budget, const Value& value, std::string_view name);
/// value[key]: an item first, then an attribute.
Value get_item(Budget& budget, const Value& value, const Value& key);
/// By a path such as "function.name" or "parameters.0", as filters take it.
Value get_path(Budget& budget, const Value& value, std::string_view path);
/// value[from:to:step]; null for a bound that was left out.
Value get_slice(Budget& budget, const Value& value, const Value* from, const Value* to,
                const Value* step);

/// Python's + - * / // % **.
Value binary(Budget& budget, std::string_view op, const Value& a, const Value& b);
/// item in container
bool contains(Budget& budget, const Value& container, const Value& item);

/// text % values
Value format_percent(Budget& budget, std::string_view text, const Value& values);
/// text.format(…)
Value format_braces(Budget& budget, std::string_view text, const CallArguments& arguments);

// Strings by code points, as Python treats them.
bool is_blank(char32_t code);
/// Without the characters of `chars` (null: blanks) at the beginning (left) and the end (right).
std::string_view stripped(std::string_view text, const std::string* chars, bool left, bool right);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// The first character in upper case, the others in lower case.
std::string capitalized(std::string_view text);
/// With & < > ' " as HTML entities.
std::string html_escaped(Budget& budget, std::string_view text);
Value replace(Budget& budget, std::string_view text, std::string_view from, std::string_view to,
              int64_t count);

}  // namespace heed::text::jinja
