#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"

namespace heed::text {

using Json = nlohmann::json;

/// Parses JSON of a file; nesting beyond a sane depth and bad syntax are errors that name the file.
Json parse_json(std::string_view text, std::string_view file);

/// One object of a tokenizer file, with typed access that names file and field in errors.
class Fields {
 public:
  Fields(const Json& object, std::string_view file, std::string_view path)
      : object_(&object), file_(file), path_(path) {
    check_data(object.is_object(), file_, "{} is not an object", path_);
  }

  const Json& json() const { return *object_; }
  const std::string& file() const { return file_; }
  std::string path(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }
  /// The field, or nullptr where it is absent or null.
  const Json* find(std::string_view name) const {
    const auto it = object_->find(name);
    return it == object_->end() || it->is_null() ? nullptr : &*it;
  }
  const Json& need(std::string_view name) const {
    const Json* value = find(name);
    check_data(value != nullptr, file_, "{} is missing", path(name));
    return *value;
  }
  std::string text(std::string_view name) const {
    const Json& value = need(name);
    check_data(value.is_string(), file_, "{} is not a string", path(name));
    return value.get<std::string>();
  }
  std::string text(std::string_view name, std::string_view otherwise) const {
    return find(name) == nullptr ? std::string(otherwise) : text(name);
  }
  bool flag(std::string_view name, bool otherwise) const {
    const Json* value = find(name);
    check_data(value == nullptr || value->is_boolean(), file_, "{} is not true or false",
               path(name));
    return value == nullptr ? otherwise : value->get<bool>();
  }
  int64_t integer(std::string_view name) const {
    const Json& value = need(name);
    check_data(value.is_number_integer(), file_, "{} is not an integer", path(name));
    check_data(!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX, file_,
               "{} is too large", path(name));
    return value.get<int64_t>();
  }
  int64_t integer(std::string_view name, int64_t otherwise) const {
    return find(name) == nullptr ? otherwise : integer(name);
  }
  const Json& array(std::string_view name) const {
    const Json& value = need(name);
    check_data(value.is_array(), file_, "{} is not an array", path(name));
    return value;
  }
  Fields object(std::string_view name) const { return {need(name), file_, path(name)}; }
  /// Element i of an array field, which must be an object.
  Fields element(std::string_view name, size_t i) const {
    return {array(name)[i], file_, fmt::format("{}[{}]", path(name), i)};
  }

 private:
  const Json* object_;
  std::string file_;
  std::string path_;
};

/// An id of a vocabulary: a non-negative integer below a bound that no real vocabulary reaches.
inline constexpr int64_t kLargestId = 1 << 26;

}  // namespace heed::text
