#include "io/json.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"
#include "io/json_document.h"

namespace heed {
namespace {

/// The path from `root` to `node` as "a.b[3]". Searched for on errors only, so values need not
/// store it.
bool find_field(const nlohmann::json& root, const nlohmann::json* node, std::string& field) {
  if (&root == node) {
    return true;
  }
  if (!root.is_structured()) {
    return false;
  }
  const size_t length = field.size();
  size_t index = 0;
  for (const auto& [key, value] : root.items()) {
    field += root.is_array() ? fmt::format("[{}]", index) : (length == 0 ? key : "." + key);
    if (find_field(value, node, field)) {
      return true;
    }
    field.resize(length);
    ++index;
  }
  return false;
}

/// The name of a field for an error message, without quotes.
std::string shown_name(const std::string& field) {
  const std::string name = quote(field, 200);
  return name.substr(1, name.size() - 2);
}

/// A value for an error message: short, strings in double quotes.
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) {
    return "an object";
  }
  if (value.is_array()) {
    return "an array";
  }
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string quoted = quote(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

const nlohmann::json& raw(const Json& value) { return JsonAccess::node(value); }

const std::string& Json::file() const { return document_->file; }

std::string Json::field() const {
  std::string field;
  find_field(document_->root, &raw(*this), field);
  return field.empty() ? "the text" : field;
}

void Json::refuse(const std::string& what) const {
  fail(ErrorKind::data, file(), "{} {}", shown_name(field()), what);
}

void Json::wanted(std::string_view what) const {
  fail(ErrorKind::data, file(), "{} is {}; expected {}", shown_name(field()), shown(raw(*this)),
       what);
}

bool Json::is_null() const { return raw(*this).is_null(); }
bool Json::is_object() const { return raw(*this).is_object(); }
bool Json::is_array() const { return raw(*this).is_array(); }
bool Json::is_string() const { return raw(*this).is_string(); }
bool Json::is_number() const { return raw(*this).is_number(); }
bool Json::is_integer() const { return raw(*this).is_number_integer(); }
bool Json::is_boolean() const { return raw(*this).is_boolean(); }

const std::string& Json::string_ref() const {
  const auto* text = raw(*this).get_ptr<const std::string*>();
  if (text == nullptr) {
    wanted("a string");
  }
  return *text;
}

std::string Json::string() const { return string_ref(); }

int64_t Json::integer(int64_t low, int64_t high) const {
  constexpr double kExact =
      9007199254740992.0;  // 2^53: beyond it not every whole number is a double
  int64_t value = 0;
  if (raw(*this).is_number_unsigned()) {
    const auto number = raw(*this).get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      wanted("a whole number of 64 bits");
    }
    value = static_cast<int64_t>(number);
  } else if (raw(*this).is_number_integer()) {
    value = raw(*this).get<int64_t>();
  } else if (raw(*this).is_number_float() && std::abs(raw(*this).get<double>()) <= kExact &&
             std::trunc(raw(*this).get<double>()) == raw(*this).get<double>()) {
    value = static_cast<int64_t>(raw(*this).get<double>());
  } else {
    wanted("a whole number");
  }
  if (value < low || value > high) {
    wanted(fmt::format("a whole number from {} to {}", low, high));
  }
  return value;
}

double Json::number(double low, double high) const {
  if (!raw(*this).is_number()) {
    wanted("a number");
  }
  const auto value = raw(*this).get<double>();
  if (!(value >= low && value <= high)) {
    wanted(fmt::format("a number from {} to {}", low, high));
  }
  return value;
}

bool Json::boolean() const {
  if (!raw(*this).is_boolean()) {
    wanted("true or false");
  }
  return raw(*this).get<bool>();
}

std::optional<Json> Json::find(std::string_view key) const {
  if (!raw(*this).is_object()) {
    wanted("an object");
  }
  const auto member = raw(*this).find(key);
  if (member == raw(*this).end() || member->is_null()) {
    return std::nullopt;
  }
  return Json(document_, JsonAccess::pointer(*member));
}

bool Json::has(std::string_view key) const { return find(key).has_value(); }
bool Json::mentions(std::string_view key) const { return raw(*this).contains(key); }

Json Json::at(std::string_view key) const {
  std::optional<Json> member = find(key);
  if (!member) {
    const std::string parent = &raw(*this) == &document_->root ? "" : field() + ".";
    fail(ErrorKind::data, file(), "{}{} is missing", parent, key);
  }
  return *member;
}

std::string Json::string_or(std::string_view key, std::string_view otherwise) const {
  const auto member = find(key);
  return member ? member->string() : std::string(otherwise);
}
int64_t Json::integer_or(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const {
  const auto member = find(key);
  return member ? member->integer(low, high) : otherwise;
}
double Json::number_or(std::string_view key, double otherwise, double low, double high) const {
  const auto member = find(key);
  return member ? member->number(low, high) : otherwise;
}
bool Json::boolean_or(std::string_view key, bool otherwise) const {
  const auto member = find(key);
  return member ? member->boolean() : otherwise;
}

void Json::only(std::initializer_list<std::string_view> known) const {
  for_each([&](const std::string& key, const Json& value) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      value.refuse(fmt::format("is not a known key; known keys: {}", fmt::join(known, ", ")));
    }
  });
}

size_t Json::size() const {
  if (!raw(*this).is_array() && !raw(*this).is_object()) {
    wanted("an array or object");
  }
  return raw(*this).size();
}

Json Json::operator[](size_t index) const {
  if (!raw(*this).is_array()) {
    wanted("an array");
  }
  if (index >= raw(*this).size()) {
    refuse(fmt::format("has {} elements; expected more", raw(*this).size()));
  }
  return Json(document_, JsonAccess::pointer(raw(*this)[index]));
}

void Json::for_each(const std::function<void(const std::string&, const Json&)>& fn) const {
  const auto* members = raw(*this).get_ptr<const nlohmann::json::object_t*>();
  if (members == nullptr) {
    wanted("an object");
  }
  for (const auto& [key, value] : *members) {
    fn(key, Json(document_, JsonAccess::pointer(value)));
  }
}

std::vector<Json> Json::elements() const {
  if (!raw(*this).is_array()) {
    wanted("an array");
  }
  std::vector<Json> all;
  all.reserve(raw(*this).size());
  for (const auto& value : raw(*this)) {
    all.push_back(Json(document_, JsonAccess::pointer(value)));
  }
  return all;
}

std::vector<int64_t> Json::integers(int64_t low, int64_t high) const {
  std::vector<int64_t> values;
  for (const Json& element : elements()) {
    values.push_back(element.integer(low, high));
  }
  return values;
}

std::vector<std::string> Json::strings() const {
  std::vector<std::string> values;
  for (const Json& element : elements()) {
    values.push_back(element.string());
  }
  return values;
}

std::string Json::dump(int indent) const {
  return raw(*this).dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace heed
