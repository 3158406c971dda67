#pragma once

#include <string>

#include "text/jinja_value.h"

namespace heed::text::jinja {

/// Python's repr() of a float.
std::string float_text(double number);
/// Python's str(): what {{ value }} prints.
std::string to_text(Budget& budget, const Value& value);
/// Appends Python's repr().
void append_repr(TextBuilder& out, const Value& value);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  int64_t indent = -1;  ///< below 0: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::string indent_text;  ///< one level of indent, where `indent` is 0 or more
};
/// Python's json.dumps().
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);
/// The value of a JSON text. `name` stands for it in errors.
Value from_json(Budget& budget, std::string_view json, const std::string& name);

}  // namespace heed::text::jinja
