#include <algorithm>

#include "text/jinja_runtime.h"

namespace heed::text::jinja {
namespace {

using Kind = ListObject::Kind;

/// Arguments without the first `count` positional ones.
CallArguments without_first(const CallArguments& arguments, size_t count) {
  CallArguments rest;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  rest.named = arguments.named;
  return rest;
}

/// What a filter runs over; anything that is false counts as empty here, None too.
std::vector<Value> items_of(Budget& budget, const Value& input) {
  return truthy(input) ? iterate(budget, input) : std::vector<Value>{};
}

Value map(Budget& budget, const Value& input, const CallArguments& arguments) {
  std::vector<Value> mapped;
  const bool by_attribute = arguments.positional.empty();
  if (by_attribute) {
    const std::string path = to_text(budget, arguments.at(0, "attribute", "map"));
    const Value* otherwise = arguments.find(~size_t{0}, "default");
    for (const Value& item : items_of(budget, input)) {
      Value value = get_path(budget, item, path);
      if (value.is_undefined() && otherwise != nullptr) {
        value = *otherwise;
      }
      mapped.push_back(std::move(value));
    }
  } else {
    const std::string name = to_text(budget, arguments.positional[0]);
    const CallArguments rest = without_first(arguments, 1);
    for (const Value& item : items_of(budget, input)) {
      mapped.push_back(apply_filter(budget, name, item, rest));
    }
  }
  return make_list(budget, std::move(mapped), Kind::generator);
}

/// select, reject, selectattr and rejectattr.
Value select(Budget& budget, const Value& input, const CallArguments& arguments, bool wanted,
             bool by_attribute) {
  const size_t own = by_attribute ? 1 : 0;
  const std::string path =
      by_attribute ? to_text(budget, arguments.at(0, "attribute", "selectattr")) : "";
  const bool tested = arguments.positional.size() > own;
  const std::string test = tested ? to_text(budget, arguments.positional[own]) : "";
  const CallArguments rest = without_first(arguments, own + 1);
  std::vector<Value> kept;
  for (const Value& item : items_of(budget, input)) {
    const Value value = by_attribute ? get_path(budget, item, path) : item;
    const bool holds = tested ? apply_test(budget, test, value, rest) : truthy(value);
    if (holds == wanted) {
      kept.push_back(item);
    }
  }
  return make_list(budget, std::move(kept), Kind::generator);
}

/// A list of (key, items), in the order of the keys.
Value groupby(Budget& budget, const Value& input, const CallArguments& arguments) {
  const std::string path = to_text(budget, arguments.at(0, "attribute", "groupby"));
  const Value* otherwise = arguments.find(1, "default");
  const bool case_sensitive = arguments.flag(2, "case_sensitive");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(budget, input)) {
    Value key = get_path(budget, item, path);
    key = key.is_undefined() && otherwise != nullptr ? *otherwise : key;
    keyed.emplace_back(std::move(key), item);
  }
  const auto folded = [&](const Value& key) {
    return case_sensitive || !key.is_string() ? key : make_string(budget, lower(key.text()));
  };
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return compare(budget, folded(a.first), folded(b.first)) < 0;
  });
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    size_t end = i;
    for (; end < keyed.size() && equal(budget, folded(keyed[i].first), folded(keyed[end].first));
         ++end) {
      members.push_back(keyed[end].second);
    }
    if (end == i) {  // a number that is not equal to itself
      members.push_back(keyed[end++].second);
    }
    groups.push_back(
        make_list(budget, {keyed[i].first, make_list(budget, std::move(members))}, Kind::tuple));
    i = end;
  }
  return make_list(budget, std::move(groups));
}

}  // namespace

Filter find_selection_filter(std::string_view name) {
  if (name == "map") {
    return map;
  }
  if (name == "select") {
    return [](Budget& b, const Value& v, const CallArguments& a) {
      return select(b, v, a, true, false);
    };
  }
  if (name == "reject") {
    return [](Budget& b, const Value& v, const CallArguments& a) {
      return select(b, v, a, false, false);
    };
  }
  if (name == "selectattr") {
    return [](Budget& b, const Value& v, const CallArguments& a) {
      return select(b, v, a, true, true);
    };
  }
  if (name == "rejectattr") {
    return [](Budget& b, const Value& v, const CallArguments& a) {
      return select(b, v, a, false, true);
    };
  }
  return name == "groupby" ? groupby : nullptr;
}

}  // namespace heed::text::jinja
