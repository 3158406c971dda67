#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_runtime.h"

namespace heed::text::jinja {
namespace {

bool sequence(const Value& value) {
  return value.is_string() || value.is_dict() || value.is_undefined() ||
         (value.is_list() && value.list().kind != ListObject::Kind::generator &&
          value.list().kind != ListObject::Kind::view);
}

/// Tests of a value's type; false in `known` where there is none of this name.
bool type_test(std::string_view name, const Value& value, bool& known) {
  known = true;
  if (name == "defined" || name == "undefined") {
    return value.is_undefined() == (name == "undefined");
  }
  if (name == "none") {
    return value.is_none();
  }
  if (name == "string") {
    return value.is_string();
  }
  if (name == "mapping") {
    return value.is_dict();
  }
  if (name == "sequence") {
    return sequence(value);
  }
  if (name == "iterable") {
    return sequence(value) || value.is_list();
  }
  if (name == "number") {
    return value.is_number();
  }
  if (name == "integer") {
    return value.is<int64_t>();
  }
  if (name == "float") {
    return value.is<double>();
  }
  if (name == "boolean") {
    return value.is<bool>();
  }
  if (name == "true" || name == "false") {
    return value.is<bool>() && *value.get<bool>() == (name == "true");
  }
  if (name == "callable") {
    return value.is<CallableRef>() || value.is<LoopRef>();
  }
  known = false;
  return false;
}

bool remainder_test(Budget& budget, const Value& value, int64_t divisor, int64_t wanted) {
  const Value rest = binary(budget, "%", value, Value(divisor));
  return equal(budget, rest, Value(wanted));
}

/// Whether a test compares with its argument, and how.
bool comparison_test(Budget& budget, std::string_view name, const Value& value,
                     const CallArguments& arguments, bool& known) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"==", "=="}, {"eq", "=="},        {"equalto", "=="}, {"!=", "!="}, {"ne", "!="},
      {"<", "<"},   {"lt", "<"},         {"lessthan", "<"}, {"<=", "<="}, {"le", "<="},
      {">", ">"},   {"gt", ">"},         {">=", ">="},      {"ge", ">="}, {"greaterthan", ">"},
      {"in", "in"}, {"sameas", "sameas"}};
  const auto found = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const auto& each) { return each.first == name; });
  known = found != std::end(kNames);
  if (!known) {
    return false;
  }
  const std::string_view op = found->second;
  const Value& other = arguments.at(0, "other", name);
  if (op == "==" || op == "!=") {
    return equal(budget, value, other) == (op == "==");
  }
  if (op == "in") {
    return contains(budget, other, value);
  }
  if (op == "sameas") {
    return value.type_name() == other.type_name() && equal(budget, value, other);
  }
  const int order = compare(budget, value, other);
  return op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
}

}  // namespace

bool apply_test(Budget& budget, std::string_view name, const Value& value,
                const CallArguments& arguments) {
  budget.step();
  if (value.is_string()) {
    budget.read(value.text());
  }
  bool known = false;
  bool holds = type_test(name, value, known);
  if (!known) {
    holds = comparison_test(budget, name, value, arguments, known);
  }
  if (known) {
    return holds;
  }
  if (name == "odd" || name == "even") {
    return remainder_test(budget, value, 2, name == "odd" ? 1 : 0);
  }
  if (name == "divisibleby") {
    return remainder_test(budget, value, arguments.integer(0, "num", 0), 0);
  }
  if (name == "upper" || name == "lower") {
    const std::string text = to_text(budget, value);
    return name == "upper" ? upper(text) == text && lower(text) != text
                           : lower(text) == text && upper(text) != text;
  }
  if (name == "filter") {
    const std::string wanted = to_text(budget, value);
    return find_string_filter(wanted) != nullptr || find_sequence_filter(wanted) != nullptr ||
           find_selection_filter(wanted) != nullptr;
  }
  raise("the test {} is not known", quote(name));
}

}  // namespace heed::text::jinja
