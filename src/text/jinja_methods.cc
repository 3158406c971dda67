#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_runtime.h"

namespace heed::text::jinja {
namespace {

Value call_dict_method(Budget& budget, const Value& self, std::string_view name,
                       const CallArguments& arguments) {
  const DictObject& dict = self.dict();
  if (name == "get") {
    const Value* found = dict.find(arguments.at(0, "key", "get"));
    const Value* otherwise = arguments.find(1, "default");
    return found != nullptr ? *found : otherwise != nullptr ? *otherwise : Value(None{});
  }
  if (name == "copy") {
    return self;
  }
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    items.push_back(name == "keys"     ? key
                    : name == "values" ? value
                                       : make_list(budget, {key, value}, ListObject::Kind::tuple));
  }
  return make_list(budget, std::move(items), ListObject::Kind::view);
}

Value call_list_method(Budget& budget, const Value& self, std::string_view name,
                       const CallArguments& arguments) {
  const auto& items = self.list().items;
  if (name == "copy") {
    return self;
  }
  const Value& wanted = arguments.at(0, "value", name);
  int64_t found = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(budget, items[i], wanted)) {
      if (name == "index") {
        return static_cast<int64_t>(i);
      }
      ++found;
    }
  }
  if (name == "index") {
    raise("index(): the value is not in the list");
  }
  return found;
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (self.is_string()) {
    return has_string_method(name);
  }
  if (self.is_dict()) {
    return any({"get", "items", "keys", "values", "copy"});
  }
  return self.is_list() && self.list().kind != ListObject::Kind::generator &&
         self.list().kind != ListObject::Kind::view && any({"index", "count", "copy"});
}

Value call_method(Budget& budget, const Value& self, const std::string& name,
                  const CallArguments& arguments) {
  if (self.is_string()) {
    return call_string_method(budget, self.text(), name, arguments);
  }
  return self.is_dict() ? call_dict_method(budget, self, name, arguments)
                        : call_list_method(budget, self, name, arguments);
}

const Value* CallArguments::find(size_t index, std::string_view name) const {
  if (index < positional.size()) {
    return &positional[index];
  }
  for (const auto& [key, value] : named) {
    if (key == name) {
      return &value;
    }
  }
  return nullptr;
}

const Value& CallArguments::at(size_t index, std::string_view name, std::string_view callee) const {
  const Value* found = find(index, name);
  if (found == nullptr) {
    raise("{}() needs the argument {}", callee,
          name.empty() ? fmt::format("{}", index + 1) : quote(name));
  }
  return *found;
}

bool CallArguments::flag(size_t index, std::string_view name, bool otherwise) const {
  const Value* found = find(index, name);
  return found != nullptr ? truthy(*found) : otherwise;
}

int64_t CallArguments::integer(size_t index, std::string_view name, int64_t otherwise) const {
  const Value* found = find(index, name);
  if (found == nullptr || found->is_none()) {
    return otherwise;
  }
  if (!found->is_integer()) {
    raise("the argument {} needs a whole number, not a value of type {}", quote(name),
          found->type_name());
  }
  return found->integer();
}

std::string CallArguments::string(size_t index, std::string_view name,
                                  std::string_view otherwise) const {
  const Value* found = find(index, name);
  if (found == nullptr || found->is_none()) {
    return std::string(otherwise);
  }
  if (!found->is_string()) {
    raise("the argument {} needs a string, not a value of type {}", quote(name),
          found->type_name());
  }
  return found->text();
}

}  // namespace heed::text::jinja
