#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja_runtime.h"
#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

[[noreturn]] void raise_undefined(const Value& value, std::string_view wanted) {
  const auto& name = value.get<Undefined>()->name;
  raise("{} is undefined, so it has no {}", name != nullptr ? quote(name->text) : "a value",
        quote(wanted));
}

/// An index from the front or, below 0, from the back; nothing where it is outside.
bool resolve_index(int64_t index, size_t count, size_t& at) {
  const auto n = static_cast<int64_t>(count);
  at = static_cast<size_t>(index < 0 ? index + n : index);
  return index >= -n && index < n;
}

Value item_of_string(Budget& budget, const std::string& text, int64_t index) {
  budget.read(text);
  size_t at = 0;
  if (!resolve_index(index, character_count(text), at)) {
    return make_undefined(budget, std::to_string(index));
  }
  const size_t begin = character_offset(text, at);
  const size_t n = decode_one(text.data() + begin, text.data() + text.size()).length;
  return make_string(budget, text.substr(begin, n));
}

const Value* item_of_dict(const Value& value, std::string_view name) {
  return value.is_dict() ? value.dict().find(name) : nullptr;
}

/// Attributes in Python's sense: methods, and those of a namespace.
bool find_attribute(const Value& value, std::string_view name, Value& found) {
  if (const auto* space = value.get<NamespaceObject*>()) {
    const Value* attribute = (*space)->find(name);
    found = attribute != nullptr ? *attribute : Value();
    return attribute != nullptr;
  }
  if (!has_method(value, name)) {
    return false;
  }
  found = CallableRef(
      new CallableObject{CallableObject::Kind::method, std::string(name), value, nullptr});
  return true;
}

/// The positions that a slice of `count` elements takes, in order.
std::vector<size_t> slice_positions(Budget& budget, int64_t count, const Value* from,
                                    const Value* to, const Value* step_value) {
  const auto whole = [](const Value* bound, int64_t otherwise) {
    if (bound == nullptr) {
      return otherwise;
    }
    if (!bound->is_integer()) {
      raise("a slice needs whole numbers, not a value of type {}", bound->type_name());
    }
    return bound->integer();
  };
  const int64_t step = std::clamp<int64_t>(whole(step_value, 1), -count - 1, count + 1);
  if (step == 0) {
    raise("a slice with a step of 0");
  }
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? count : count - 1;
  const auto bound = [&](const Value* given, int64_t otherwise) {
    if (given == nullptr) {
      return otherwise;
    }
    int64_t at = whole(given, 0);
    at = at < 0 ? std::max(at, -count - 1) + count : at;
    return std::clamp(at, low, high);
  };
  const int64_t begin = bound(from, step > 0 ? low : high);
  const int64_t end = bound(to, step > 0 ? high : low);
  std::vector<size_t> positions;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    positions.push_back(static_cast<size_t>(i));
  }
  budget.step(positions.size());
  return positions;
}

}  // namespace

Value get_attribute(Budget& budget, const Value& value, std::string_view name) {
  if (value.is_undefined()) {
    raise_undefined(value, name);
  }
  Value found;
  if (find_attribute(value, name, found)) {
    return found;
  }
  const Value* item = item_of_dict(value, name);
  return item != nullptr ? *item : make_undefined(budget, name);
}

Value get_item(Budget& budget, const Value& value, const Value& key) {
  if (value.is_undefined()) {
    raise_undefined(value, key.is_string() ? key.text() : to_text(budget, key));
  }
  if (key.is_string()) {
    if (const Value* item = item_of_dict(value, key.text())) {
      return *item;
    }
    Value found;
    return find_attribute(value, key.text(), found) ? found : make_undefined(budget, key.text());
  }
  if (value.is_dict()) {
    const bool hashable = !key.is_list() && !key.is_dict();
    const Value* item = hashable || key.is_list() ? value.dict().find(key) : nullptr;
    return item != nullptr ? *item : make_undefined(budget, to_text(budget, key));
  }
  if (key.is_integer() && value.is_string()) {
    return item_of_string(budget, value.text(), key.integer());
  }
  if (key.is_integer() && value.is_list() && value.list().kind != ListObject::Kind::generator &&
      value.list().kind != ListObject::Kind::view) {
    size_t at = 0;
    if (resolve_index(key.integer(), value.list().items.size(), at)) {
      return value.list().items[at];
    }
  }
  return make_undefined(budget, to_text(budget, key));
}

Value get_path(Budget& budget, const Value& value, std::string_view path) {
  Value current = value;
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = error == std::errc{} && end == part.data() + part.size();
    current =
        get_item(budget, current, number ? Value(index) : make_string(budget, std::string(part)));
    if (dot == std::string_view::npos) {
      return current;
    }
    path.remove_prefix(dot + 1);
  }
}

Value get_slice(Budget& budget, const Value& value, const Value* from, const Value* to,
                const Value* step) {
  if (value.is_string()) {
    const std::string& text = value.text();
    std::vector<size_t> offsets;
    for (size_t i = 0; i < text.size();
         i += decode_one(text.data() + i, text.data() + text.size()).length) {
      offsets.push_back(i);
    }
    budget.step(text.size() / 64);
    budget.require(text.size() * 16);
    offsets.push_back(text.size());
    TextBuilder out(budget);
    const auto count = static_cast<int64_t>(offsets.size()) - 1;
    for (const size_t at : slice_positions(budget, count, from, to, step)) {
      out.append(std::string_view(text).substr(offsets[at], offsets[at + 1] - offsets[at]));
    }
    return make_string(budget, out.take());
  }
  if (!value.is_list()) {
    if (value.is_undefined()) {
      raise_undefined(value, "slice");
    }
    return make_undefined(budget, "slice");
  }
  const ListObject& list = value.list();
  std::vector<Value> items;
  const auto count = static_cast<int64_t>(list.items.size());
  for (const size_t at : slice_positions(budget, count, from, to, step)) {
    items.push_back(list.items[at]);
  }
  return make_list(budget, std::move(items), list.kind);
}

}  // namespace heed::text::jinja
