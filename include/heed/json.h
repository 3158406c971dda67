#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace heed {

/// What a JSON text may hold. Checked before a parser sees it, so that no input makes the parser
/// use time, stack or memory out of proportion.
struct JsonLimits {
  uint64_t depth = 64;
  uint64_t values = 8'000'000;         ///< of all arrays and objects together
  uint64_t token = uint64_t{8} << 20;  ///< bytes of one string or number
};

struct JsonNode;    // a value inside a document
class JsonBuilder;  // makes documents; see below

/// A value of a parsed JSON (or TOML) text: a cheap handle, copies share the document. Getters
/// check type and range and throw `Error` of kind data that names file, field and what is expected:
/// `config.json: text_config.n_head is "abc"; a whole number is wanted`.
class HEED_API Json {
 public:
  /// Parses all of `text`. Refuses what lies beyond the limits, bad UTF-8, a key that comes twice
  /// in an object, and anything after the value. `file` is the name in messages.
  static Json parse(std::string_view text, const std::string& file, const JsonLimits& limits = {});
  static Json read(const std::filesystem::path& path, const JsonLimits& limits = {},
                   uint64_t max_bytes = uint64_t{512} << 20);

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
  bool mentions(std::string_view key) const;             ///< present, be it null
  Json at(std::string_view key) const;                   ///< throws where it is absent
  std::optional<Json> find(std::string_view key) const;  ///< nothing where it is absent
  std::string string(std::string_view key) const { return at(key).string(); }
  int64_t integer(std::string_view key, int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const {
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

 private:
  friend struct JsonAccess;
  struct Document;
  Json(std::shared_ptr<const Document> document, const JsonNode* node)
      : document_(std::move(document)), node_(node) {}
  [[noreturn]] void wanted(std::string_view what) const;

  std::shared_ptr<const Document> document_;
  const JsonNode* node_ = nullptr;
};

/// Builds a JSON object: `JsonBuilder().set("hidden_size", 64).set("hidden_act", "silu").build()`.
class HEED_API JsonBuilder {
 public:
  JsonBuilder();
  /// Starts from a copy of an object.
  explicit JsonBuilder(const Json& object);
  JsonBuilder(const JsonBuilder& other);
  JsonBuilder(JsonBuilder&&) noexcept;
  JsonBuilder& operator=(JsonBuilder other) noexcept;
  ~JsonBuilder();

  JsonBuilder& set(std::string_view key, int64_t value);
  JsonBuilder& set(std::string_view key, int value) {
    return set(key, static_cast<int64_t>(value));
  }
  JsonBuilder& set(std::string_view key, double value);
  JsonBuilder& set(std::string_view key, bool value);
  JsonBuilder& set(std::string_view key, std::string_view value);
  JsonBuilder& set(std::string_view key, const char* value) {
    return set(key, std::string_view(value));
  }
  JsonBuilder& set(std::string_view key, const std::string& value) {
    return set(key, std::string_view(value));
  }
  JsonBuilder& set(std::string_view key, const std::vector<std::string>& values);
  JsonBuilder& set(std::string_view key, const std::vector<int64_t>& values);
  JsonBuilder& set(std::string_view key, const std::vector<double>& values);
  JsonBuilder& set(std::string_view key, const std::vector<Json>& values);
  JsonBuilder& set(std::string_view key, const Json& value);
  JsonBuilder& set(std::string_view key, const JsonBuilder& value);
  JsonBuilder& set_null(std::string_view key);
  /// Sets the value only where the key is absent.
  template <class T>
  JsonBuilder& set_default(std::string_view key, const T& value) {
    return has(key) ? *this : set(key, value);
  }
  JsonBuilder& erase(std::string_view key);
  bool has(std::string_view key) const;

  /// The document; `file` is its name in messages.
  Json build(const std::string& file = "config.json") const;
  std::string dump(int indent = 2) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heed
