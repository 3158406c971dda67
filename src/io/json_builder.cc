#include <nlohmann/json.hpp>

#include "io/json.h"

namespace heed {

struct JsonBuilder::Impl {
  nlohmann::json object = nlohmann::json::object();
};

JsonBuilder::JsonBuilder() : impl_(std::make_unique<Impl>()) {}
JsonBuilder::JsonBuilder(const Json& object) : JsonBuilder() { impl_->object = raw(object); }
JsonBuilder::JsonBuilder(const JsonBuilder& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
JsonBuilder::JsonBuilder(JsonBuilder&&) noexcept = default;
JsonBuilder& JsonBuilder::operator=(JsonBuilder other) noexcept {
  impl_.swap(other.impl_);
  return *this;
}
JsonBuilder::~JsonBuilder() = default;

namespace {
template <class T>
void put(nlohmann::json& object, std::string_view key, const T& value) {
  object[std::string(key)] = value;
}
}  // namespace

JsonBuilder& JsonBuilder::set(std::string_view key, int64_t value) {
  put(impl_->object, key, value);
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, double value) {
  put(impl_->object, key, value);
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, bool value) {
  put(impl_->object, key, value);
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, std::string_view value) {
  put(impl_->object, key, std::string(value));
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, const std::vector<std::string>& values) {
  put(impl_->object, key, values);
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, const std::vector<int64_t>& values) {
  put(impl_->object, key, values);
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, const std::vector<double>& values) {
  put(impl_->object, key, values);
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, const std::vector<Json>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const Json& value : values) {
    list.push_back(raw(value));
  }
  impl_->object[std::string(key)] = std::move(list);
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, const Json& value) {
  put(impl_->object, key, raw(value));
  return *this;
}
JsonBuilder& JsonBuilder::set(std::string_view key, const JsonBuilder& value) {
  put(impl_->object, key, value.impl_->object);
  return *this;
}
JsonBuilder& JsonBuilder::set_null(std::string_view key) {
  put(impl_->object, key, nullptr);
  return *this;
}
JsonBuilder& JsonBuilder::erase(std::string_view key) {
  impl_->object.erase(std::string(key));
  return *this;
}
bool JsonBuilder::has(std::string_view key) const {
  const auto found = impl_->object.find(key);
  return found != impl_->object.end() && !found->is_null();
}

Json JsonBuilder::build(const std::string& file) const {
  return adopt_json(nlohmann::json(impl_->object), file);
}
std::string JsonBuilder::dump(int indent) const {
  return impl_->object.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace heed
