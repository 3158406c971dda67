#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_limits.h"

namespace heed {

/// A value of a parsed JSON (or TOML) text. A cheap handle: copies share the document. Getters
/// check type and range and throw kind data with file, field and what is wanted: `config.json:
/// text_config.n_head is "abc"; a whole number is wanted`.
class Json {
 public:
  /// Parses all of `text`. Refuses what lies beyond the limits, bad UTF-8, a key that comes twice
  /// in an object, and anything after the value. `file` is the name in messages.
  static Json parse(std::string_view text, const std::string& file, const JsonLimits& limits = {});
  static Json read(const std::filesystem::path& path, const JsonLimits& limits = {},
                   uint64_t max_bytes = uint64_t{512} << 20);
  /// Takes a document that something else has made.
  static Json adopt(nlohmann::json&& value, const std::string& file);

  bool is_null() const;
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_integer() const;
  bool is_boolean() const;

  /// The value itself, checked.
  std::string string() const;
  const std::string& string_ref() const;  ///< lives as long as the document
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(double low = -std::numeric_limits<double>::max(),
                double high = std::numeric_limits<double>::max()) const;
  bool boolean() const;

  /// Members of an object. null counts as absent, as Hugging Face's configurations mean it.
  bool has(std::string_view key) const;
  Json at(std::string_view key) const;                   ///< throws where it is absent
  std::optional<Json> find(std::string_view key) const;  ///< nothing where it is absent
  std::string string(std::string_view key) const { return at(key).string(); }
  int64_t integer(std::string_view key, int64_t low, int64_t high) const {
    return at(key).integer(low, high);
  }
  double number(std::string_view key, double low, double high) const {
    return at(key).number(low, high);
  }
  bool boolean(std::string_view key) const { return at(key).boolean(); }
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const;
  double number_or(std::string_view key, double otherwise, double low, double high) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  /// Throws where the object has a key that is not among these, and names them.
  void only(std::initializer_list<std::string_view> known) const;

  /// Elements of an array or members of an object (these in the order of their keys).
  size_t size() const;
  Json operator[](size_t index) const;
  void for_each(const std::function<void(const std::string& key, const Json& value)>& fn) const;
  std::vector<Json> elements() const;  ///< of an array
  std::vector<int64_t> integers(int64_t low, int64_t high) const;
  std::vector<std::string> strings() const;

  const std::string& file() const;
  std::string field() const;  ///< "text_config.layers[3]"; "the text" for the whole
  /// Throws `file: field <what>`.
  [[noreturn]] void refuse(const std::string& what) const;
  std::string dump(int indent = -1) const;
  /// For what the getters do not cover.
  const nlohmann::json& raw() const { return *node_; }

 private:
  struct Document;
  Json(std::shared_ptr<const Document> document, const nlohmann::json* node)
      : document_(std::move(document)), node_(node) {}
  [[noreturn]] void wanted(std::string_view what) const;

  std::shared_ptr<const Document> document_;
  const nlohmann::json* node_ = nullptr;
};

}  // namespace heed
