#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

/// Destroying a value recurses into its elements, so their nesting is bounded.
constexpr uint32_t kMaxDepth = 120;
constexpr uint64_t kObjectBytes = 96;

uint32_t nesting(const Value& value) {
  if (value.is_list()) {
    return value.list().depth;
  }
  if (value.is_dict()) {
    return value.dict().depth;
  }
  if (const auto* callable = value.get<CallableRef>()) {
    return nesting((*callable)->self) + 1;
  }
  if (const auto* loop = value.get<LoopRef>()) {
    return (*loop)->items != nullptr ? (*loop)->items->depth + 1 : 1;
  }
  return 0;
}

uint32_t checked_depth(uint32_t deepest) {
  if (deepest >= kMaxDepth) {
    raise("nests lists and dictionaries deeper than {} levels", kMaxDepth);
  }
  return deepest + 1;
}

bool equal_lists(Budget& budget, const ListObject& a, const ListObject& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) {
    return false;
  }
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    [&](const Value& x, const Value& y) { return equal(budget, x, y); });
}

bool equal_dicts(Budget& budget, const DictObject& a, const DictObject& b) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
           const Value* other = b.find(item.first);
           return other != nullptr && equal(budget, item.second, *other);
         });
}

}  // namespace

const std::string& Value::text() const { return std::get<StringRef>(data_)->text; }

bool Value::is_safe() const { return is_string() && std::get<StringRef>(data_)->safe; }

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"Undefined",   "NoneType", "bool",     "int",
                                                "float",       "str",      "list",     "dict",
                                                "LoopContext", "function", "Namespace"};
  if (is_list() && list().kind != ListObject::Kind::list) {
    return list().kind == ListObject::Kind::tuple ? "tuple" : "generator";
  }
  return kNames[data_.index()];
}

Value* NamespaceObject::find(std::string_view name) {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& each) { return each.first == name; });
  return found == attributes.end() ? nullptr : &found->second;
}

const Value* DictObject::find(std::string_view key) const {
  const auto found = index.find("s" + std::string(key));
  return found == index.end() ? nullptr : &items[found->second].second;
}

const Value* DictObject::find(const Value& key) const {
  const auto found = index.find(hash_key(key));
  return found == index.end() ? nullptr : &items[found->second].second;
}

std::string hash_key(const Value& key) {
  if (key.is_string()) {
    return "s" + key.text();
  }
  if (key.is_integer()) {
    return fmt::format("i{}", key.integer());
  }
  if (const auto* number = key.get<double>()) {
    constexpr double kExact = 9007199254740992.0;
    return std::trunc(*number) == *number && std::abs(*number) <= kExact
               ? fmt::format("i{}", static_cast<int64_t>(*number))
               : fmt::format("f{}", *number);
  }
  if (key.is_none() || key.is_undefined()) {
    return key.is_none() ? "n" : "u";
  }
  if (key.is_list() && key.list().kind == ListObject::Kind::tuple) {
    std::string all = fmt::format("t{}:", key.list().items.size());
    for (const Value& item : key.list().items) {
      const std::string part = hash_key(item);
      all += fmt::format("{}:{}", part.size(), part);
      if (all.size() > 65536) {
        raise("uses a tuple as a key that is too long");
      }
    }
    return all;
  }
  if (const auto* space = key.get<NamespaceObject*>()) {
    return fmt::format("p{}", static_cast<const void*>(*space));
  }
  raise("unhashable type: '{}'", key.type_name());
}

Value make_string(Budget& budget, std::string text, bool safe) {
  const uint64_t bytes = text.capacity() + kObjectBytes;
  budget.step(1 + text.size() / 256);
  return Value(StringRef(new StringObject{std::move(text), safe, Reserved(budget, bytes)}));
}

Value make_list(Budget& budget, std::vector<Value> items, ListObject::Kind kind) {
  uint32_t deepest = 0;
  for (const Value& item : items) {
    deepest = std::max(deepest, nesting(item));
  }
  budget.step(1 + items.size());
  const uint64_t bytes = items.capacity() * sizeof(Value) + kObjectBytes;
  return Value(ListRef(
      new ListObject{std::move(items), kind, checked_depth(deepest), Reserved(budget, bytes)}));
}

Value make_dict(Budget& budget, std::vector<std::pair<Value, Value>> items) {
  constexpr uint64_t kEntryBytes = 96;
  uint64_t bytes = kObjectBytes;
  uint32_t deepest = 0;
  std::vector<std::pair<Value, Value>> unique;
  std::unordered_map<std::string, size_t> index;
  unique.reserve(items.size());
  for (std::pair<Value, Value>& item : items) {
    const auto& [key, value] = item;
    deepest = std::max({deepest, nesting(key), nesting(value)});
    std::string hash = hash_key(key);
    bytes += sizeof(unique[0]) + kEntryBytes + hash.size();
    budget.require(bytes);
    const auto [place, fresh] = index.emplace(std::move(hash), unique.size());
    if (fresh) {
      unique.push_back(std::move(item));
    } else {
      unique[place->second].second = std::move(item.second);
    }
  }
  budget.step(1 + items.size());
  return Value(DictRef(new DictObject{std::move(unique), std::move(index), checked_depth(deepest),
                                      Reserved(budget, bytes)}));
}

Value make_undefined(Budget& budget, std::string_view name) {
  const Value text = make_string(budget, std::string(name.substr(0, 80)));
  return Value(Undefined{*text.get<StringRef>()});
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) {
    return false;
  }
  if (value.is_integer()) {
    return value.integer() != 0;
  }
  if (const auto* number = value.get<double>()) {
    return *number != 0.0;
  }
  if (value.is_string()) {
    return !value.text().empty();
  }
  if (value.is_list()) {
    return value.list().kind == ListObject::Kind::generator || !value.list().items.empty();
  }
  if (value.is_dict()) {
    return !value.dict().items.empty();
  }
  return true;
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    return a.is_integer() && b.is_integer() ? a.integer() == b.integer() : a.number() == b.number();
  }
  if (a.is_string() && b.is_string()) {
    budget.step(a.text().size() / 256);
    return a.text() == b.text();
  }
  if (a.is_list() && b.is_list()) {
    return equal_lists(budget, a.list(), b.list());
  }
  if (a.is_dict() && b.is_dict()) {
    return equal_dicts(budget, a.dict(), b.dict());
  }
  if (a.is<NamespaceObject*>() && b.is<NamespaceObject*>()) {
    return *a.get<NamespaceObject*>() == *b.get<NamespaceObject*>();
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) {
      return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
    }
    return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
  }
  if (a.is_string() && b.is_string()) {
    budget.step(std::min(a.text().size(), b.text().size()) / 256);
    return a.text().compare(b.text());
  }
  if (a.is_list() && b.is_list() && a.list().kind == b.list().kind) {
    const auto& x = a.list().items;
    const auto& y = b.list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(budget, x[i], y[i])) {
        return compare(budget, x[i], y[i]);
      }
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  raise("cannot order a value of type {} and one of type {}", a.type_name(), b.type_name());
}

std::vector<Value> iterate(Budget& budget, const Value& value) {
  if (value.is_undefined()) {
    return {};
  }
  if (value.is_list()) {
    budget.step(value.list().items.size());
    budget.require(value.list().items.size() * sizeof(Value));
    return value.list().items;
  }
  std::vector<Value> items;
  if (value.is_dict()) {
    for (const auto& item : value.dict().items) {
      items.push_back(item.first);
    }
    budget.step(items.size());
    return items;
  }
  if (value.is_string()) {
    const std::string& text = value.text();
    for (size_t i = 0; i < text.size();) {
      const size_t n = decode_one(text.data() + i, text.data() + text.size()).length;
      items.push_back(make_string(budget, text.substr(i, n)));
      i += n;
    }
    return items;
  }
  raise("'{}' object is not iterable", value.type_name());
}

int64_t length(const Value& value) {
  if (value.is_undefined()) {
    return 0;
  }
  if (value.is_string()) {
    return static_cast<int64_t>(character_count(value.text()));
  }
  if (value.is_dict()) {
    return static_cast<int64_t>(value.dict().items.size());
  }
  if (value.is_list() && value.list().kind != ListObject::Kind::generator) {
    return static_cast<int64_t>(value.list().items.size());
  }
  raise("object of type '{}' has no length", value.type_name());
}

size_t character_count(std::string_view text) { return count_characters(text); }

size_t character_offset(std::string_view text, size_t index) {
  size_t offset = 0;
  while (index > 0 && offset < text.size()) {
    offset += decode_one(text.data() + offset, text.data() + text.size()).length;
    --index;
  }
  return offset;
}

}  // namespace heed::text::jinja
