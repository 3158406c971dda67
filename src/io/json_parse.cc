#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "io/json.h"
#include "io/json_document.h"

namespace heed {
namespace {

/// Builds the document, seeing every key: the library's own builder lets the last of equal keys
/// win.
class Builder {
 public:
  Builder(nlohmann::json& root, const std::string& file) : root_(root), file_(file) {}

  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return open(nlohmann::json::object()); }
  bool start_array(size_t) { return open(nlohmann::json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    const auto [place, fresh] = open_.back()->emplace(std::move(name), nullptr);
    check_data(fresh, file_, "key {} is there twice in one object", quote(place.key()));
    member_ = &*place;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // The library's text may quote the whole of a bad token.
    fail(ErrorKind::data, file_, "is not valid JSON at byte {}: {}", position,
         quote(error.what(), 200));
  }

 private:
  template <class T>
  nlohmann::json* place(T&& value) {
    if (open_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      return &open_.back()->emplace_back(std::forward<T>(value));
    }
    *member_ = std::forward<T>(value);
    return member_;
  }
  template <class T>
  bool add(T&& value) {
    place(std::forward<T>(value));
    return true;
  }
  bool open(nlohmann::json&& container) {
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  nlohmann::json& root_;
  const std::string& file_;
  std::vector<nlohmann::json*> open_;  // an array does not grow while a value inside it is open
  nlohmann::json* member_ = nullptr;
};

}  // namespace

Json Json::parse(std::string_view text, const std::string& file, const JsonLimits& limits) {
  check_json_limits(text, file, limits);
  auto document = std::make_shared<Document>();
  document->file = file;
  Builder builder(document->root, file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  const nlohmann::json* root = &document->root;
  return Json(std::move(document), root);
}

Json Json::read(const std::filesystem::path& path, const JsonLimits& limits, uint64_t max_bytes) {
  return parse(read_file(path, max_bytes), path.native(), limits);
}

Json Json::adopt(nlohmann::json&& value, const std::string& file) {
  auto document = std::make_shared<Document>();
  document->file = file;
  document->root = std::move(value);
  const nlohmann::json* root = &document->root;
  return Json(std::move(document), root);
}

}  // namespace heed
