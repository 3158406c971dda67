#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "text/jinja_runtime.h"

namespace heed::text::jinja {
namespace {

using Kind = ListObject::Kind;

Value default_value(Budget& budget, const Value& input, const CallArguments& arguments) {
  if (!input.is_undefined() && !(arguments.flag(1, "boolean") && !truthy(input))) {
    return input;
  }
  const Value* otherwise = arguments.find(0, "default_value");
  return otherwise != nullptr ? *otherwise : make_string(budget, "");
}

Value length_of(Budget&, const Value& input, const CallArguments&) { return length(input); }

Value first(Budget& budget, const Value& input, const CallArguments&) {
  const std::vector<Value> items = iterate(budget, input);
  return items.empty() ? make_undefined(budget, "first") : items.front();
}

Value last(Budget& budget, const Value& input, const CallArguments&) {
  const std::vector<Value> items = iterate(budget, input);
  return items.empty() ? make_undefined(budget, "last") : items.back();
}

Value list(Budget& budget, const Value& input, const CallArguments&) {
  return make_list(budget, iterate(budget, input));
}

Value join(Budget& budget, const Value& input, const CallArguments& arguments) {
  const Value* separator = arguments.find(0, "d");
  const std::string between = separator != nullptr ? to_text(budget, *separator) : "";
  const Value* attribute = arguments.find(1, "attribute");
  TextBuilder out(budget);
  bool is_first = true;
  for (const Value& item : iterate(budget, input)) {
    out.append(is_first ? "" : between);
    out.append(to_text(
        budget, attribute == nullptr ? item : get_path(budget, item, to_text(budget, *attribute))));
    is_first = false;
  }
  return make_string(budget, out.take());
}

Value items(Budget& budget, const Value& input, const CallArguments&) {
  if (input.is_undefined()) {
    return make_list(budget, {}, Kind::generator);
  }
  if (!input.is_dict()) {
    raise("items needs a dictionary, not a value of type {}", input.type_name());
  }
  const Value view = call_method(budget, input, "items", {});
  return make_list(budget, view.list().items, Kind::generator);
}

/// A string as it is compared where the case does not count.
Value folded(Budget& budget, const Value& value, bool case_sensitive) {
  return case_sensitive || !value.is_string() ? value : make_string(budget, lower(value.text()));
}

/// Sorts stably by keys, each of which belongs to the value beside it.
void sort_by_key(Budget& budget, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const int order = compare(budget, a.first, b.first);
    return reverse ? order > 0 : order < 0;
  });
}

std::vector<std::pair<Value, Value>> keyed_items(Budget& budget, const Value& input,
                                                 const Value* attribute, bool case_sensitive) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(budget, input)) {
    const bool path = attribute != nullptr && !attribute->is_none();
    const Value key = path ? get_path(budget, item, to_text(budget, *attribute)) : item;
    keyed.emplace_back(folded(budget, key, case_sensitive), item);
  }
  return keyed;
}

Value values_of(Budget& budget, std::vector<std::pair<Value, Value>> keyed) {
  std::vector<Value> values;
  values.reserve(keyed.size());
  for (auto& each : keyed) {
    values.push_back(std::move(each.second));
  }
  return make_list(budget, std::move(values));
}

Value sort(Budget& budget, const Value& input, const CallArguments& arguments) {
  auto keyed = keyed_items(budget, input, arguments.find(2, "attribute"),
                           arguments.flag(1, "case_sensitive"));
  sort_by_key(budget, keyed, arguments.flag(0, "reverse"));
  return values_of(budget, std::move(keyed));
}

Value dictsort(Budget& budget, const Value& input, const CallArguments& arguments) {
  const bool by_value = arguments.string(1, "by", "key") == "value";
  const Value pairs = items(budget, input, {});
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& pair : pairs.list().items) {
    keyed.emplace_back(
        folded(budget, pair.list().items[by_value ? 1 : 0], arguments.flag(0, "case_sensitive")),
        pair);
  }
  sort_by_key(budget, keyed, arguments.flag(2, "reverse"));
  return values_of(budget, std::move(keyed));
}

Value unique(Budget& budget, const Value& input, const CallArguments& arguments) {
  std::map<std::string, bool> seen;
  std::vector<Value> kept;
  for (auto& [key, item] : keyed_items(budget, input, arguments.find(1, "attribute"),
                                       arguments.flag(0, "case_sensitive"))) {
    if (seen.emplace(hash_key(key), true).second) {
      kept.push_back(std::move(item));
    }
  }
  return make_list(budget, std::move(kept), Kind::generator);
}

Value extreme(Budget& budget, const Value& input, const CallArguments& arguments, int sign) {
  auto keyed = keyed_items(budget, input, arguments.find(1, "attribute"),
                           arguments.flag(0, "case_sensitive"));
  if (keyed.empty()) {
    return make_undefined(budget, "the extreme of an empty sequence");
  }
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    best = compare(budget, keyed[i].first, keyed[best].first) * sign > 0 ? i : best;
  }
  return keyed[best].second;
}

Value minimum(Budget& budget, const Value& input, const CallArguments& arguments) {
  return extreme(budget, input, arguments, -1);
}
Value maximum(Budget& budget, const Value& input, const CallArguments& arguments) {
  return extreme(budget, input, arguments, 1);
}

Value sum(Budget& budget, const Value& input, const CallArguments& arguments) {
  const Value* start = arguments.find(1, "start");
  Value total = start != nullptr ? *start : Value(int64_t{0});
  for (const auto& [key, item] : keyed_items(budget, input, arguments.find(0, "attribute"), true)) {
    total = binary(budget, "+", total, key);
  }
  return total;
}

Value reverse(Budget& budget, const Value& input, const CallArguments&) {
  std::vector<Value> all = iterate(budget, input);
  std::reverse(all.begin(), all.end());
  if (input.is_string()) {
    TextBuilder out(budget);
    for (const Value& character : all) {
      out.append(character.text());
    }
    return make_string(budget, out.take());
  }
  return make_list(budget, std::move(all), Kind::generator);
}

Value batch(Budget& budget, const Value& input, const CallArguments& arguments) {
  const int64_t count = arguments.integer(0, "linecount", 0);
  const Value* fill = arguments.find(1, "fill_with");
  if (count < 1) {
    raise("batch needs a count above 0");
  }
  std::vector<Value> batches;
  std::vector<Value> current;
  const std::vector<Value> all = iterate(budget, input);
  for (size_t i = 0; i < all.size(); ++i) {
    current.push_back(all[i]);
    const bool full = static_cast<int64_t>(current.size()) == count;
    for (; i + 1 == all.size() && fill != nullptr && !fill->is_none() &&
           static_cast<int64_t>(current.size()) < count;) {
      budget.step();
      budget.require(current.size() * sizeof(Value));
      current.push_back(*fill);
    }
    if (full || i + 1 == all.size()) {
      batches.push_back(make_list(budget, std::move(current)));
      current.clear();
    }
  }
  return make_list(budget, std::move(batches), Kind::generator);
}

Value attribute(Budget& budget, const Value& input, const CallArguments& arguments) {
  const std::string name = to_text(budget, arguments.at(0, "name", "attr"));
  return input.is_dict() && !has_method(input, name) ? make_undefined(budget, name)
                                                     : get_attribute(budget, input, name);
}

struct Entry {
  std::string_view name;
  Filter filter;
};

constexpr Entry kFilters[] = {
    {"default", default_value}, {"d", default_value}, {"length", length_of},  {"count", length_of},
    {"first", first},           {"last", last},       {"list", list},         {"join", join},
    {"items", items},           {"sort", sort},       {"dictsort", dictsort}, {"unique", unique},
    {"min", minimum},           {"max", maximum},     {"sum", sum},           {"reverse", reverse},
    {"batch", batch},           {"attr", attribute},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  for (const Entry& entry : kFilters) {
    if (entry.name == name) {
      return entry.filter;
    }
  }
  return nullptr;
}

Value apply_filter(Budget& budget, std::string_view name, const Value& input,
                   const CallArguments& arguments) {
  budget.step();
  if (input.is_string()) {
    budget.read(input.text());
  }
  for (const auto find : {find_string_filter, find_sequence_filter, find_selection_filter}) {
    if (const Filter filter = find(name)) {
      return filter(budget, input, arguments);
    }
  }
  raise("the filter {} is not known", quote(name));
}

}  // namespace heed::text::jinja
