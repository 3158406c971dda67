#include <cmath>

#include "text/jinja_runtime.h"

namespace heed::text::jinja {
namespace {

__extension__ using Wide = __int128;  // a sum or product of two 64-bit numbers fits

[[noreturn]] void raise_operands(std::string_view op, const Value& a, const Value& b) {
  raise("{} does not work on a value of type {} and one of type {}", op, a.type_name(),
        b.type_name());
}

Value whole(Wide number) {
  if (number > std::numeric_limits<int64_t>::max() ||
      number < std::numeric_limits<int64_t>::min()) {
    raise("an integer of more than 64 bits");
  }
  return static_cast<int64_t>(number);
}

Value power(const Value& a, const Value& b) {
  if (!a.is_integer() || !b.is_integer() || b.integer() < 0) {
    return std::pow(a.number(), b.number());
  }
  const int64_t base = a.integer();
  if (base >= -1 && base <= 1) {
    return base == 0 ? Value(int64_t{b.integer() == 0}) : Value(b.integer() % 2 == 0 ? 1 : base);
  }
  Wide result = 1;
  for (int64_t i = 0; i < b.integer(); ++i) {
    result = whole(result * base).integer();  // at most 63 rounds before it is out of range
  }
  return whole(result);
}

Value divide_whole(std::string_view op, int64_t a, int64_t b) {
  if (b == -1) {
    return op == "//" ? whole(-static_cast<Wide>(a)) : Value(int64_t{0});
  }
  const int64_t quotient = a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
  return op == "//" ? Value(quotient) : Value(a - quotient * b);
}

Value arithmetic(std::string_view op, const Value& a, const Value& b) {
  const bool division = op == "/" || op == "//" || op == "%";
  if (division && b.number() == 0.0) {
    raise("division by zero");
  }
  if (op == "**") {
    return power(a, b);
  }
  if (a.is_integer() && b.is_integer() && op != "/") {
    const Wide x = a.integer();
    const Wide y = b.integer();
    return op == "+"   ? whole(x + y)
           : op == "-" ? whole(x - y)
           : op == "*" ? whole(x * y)
                       : divide_whole(op, a.integer(), b.integer());
  }
  const double x = a.number();
  const double y = b.number();
  if (op == "//" || op == "%") {
    const double quotient = std::floor(x / y);
    return op == "//" ? quotient : x - quotient * y;
  }
  return op == "+" ? x + y : op == "-" ? x - y : op == "*" ? x * y : x / y;
}

Value repeat(Budget& budget, const Value& value, int64_t count) {
  if (value.is_string()) {
    TextBuilder out(budget);
    for (int64_t i = 0; i < count && !value.text().empty(); ++i) {
      budget.step();
      out.append(value.text());
    }
    return make_string(budget, out.take());
  }
  std::vector<Value> items;
  const ListObject& list = value.list();
  for (int64_t i = 0; i < count && !list.items.empty(); ++i) {
    budget.step(list.items.size());
    budget.require((items.size() + list.items.size()) * sizeof(Value));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(budget, std::move(items), list.kind);
}

}  // namespace

Value binary(Budget& budget, std::string_view op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return arithmetic(op, a, b);
  }
  if (op == "%" && a.is_string()) {
    return format_percent(budget, a.text(), b);
  }
  if (op == "+" && a.is_string() && b.is_string()) {
    const bool safe = a.is_safe() || b.is_safe();
    TextBuilder out(budget);
    for (const Value* part : {&a, &b}) {
      out.append(safe && !part->is_safe() ? html_escaped(budget, part->text()) : part->text());
    }
    return make_string(budget, out.take(), safe);
  }
  if (op == "+" && a.is_list() && b.is_list() && a.list().kind == b.list().kind) {
    std::vector<Value> items = iterate(budget, a);
    budget.require((items.size() + b.list().items.size()) * sizeof(Value));
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return make_list(budget, std::move(items), a.list().kind);
  }
  const auto sequence = [](const Value& value) { return value.is_string() || value.is_list(); };
  if (op == "*" && sequence(a) && b.is_integer()) {
    return repeat(budget, a, b.integer());
  }
  if (op == "*" && a.is_integer() && sequence(b)) {
    return repeat(budget, b, a.integer());
  }
  raise_operands(op, a, b);
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is_undefined()) {
    return false;
  }
  if (container.is_string()) {
    if (!item.is_string()) {
      raise("'in' of a string needs a string, not a value of type {}", item.type_name());
    }
    budget.step(1 + container.text().size() / 64);
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict()) {
    return container.dict().find(item) != nullptr;
  }
  if (container.is_list()) {
    for (const Value& each : container.list().items) {
      if (equal(budget, each, item)) {
        return true;
      }
    }
    return false;
  }
  raise("'in' does not work on a value of type {}", container.type_name());
}

}  // namespace heed::text::jinja
