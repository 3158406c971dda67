#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/runtime.h"

namespace heed {

/// Appends `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
/// Appends the shortest number that reads back as `value`, always with a point or an exponent; null
/// where it is not finite, as JSON has no such number.
void append_json_number(std::string& out, double value);

/// Writes JSON in the order of the calls: objects and arrays may hold millions of values, and
/// Hugging Face's files are recognised by their order of keys. With an indent the text looks as
/// Python's json.dumps(indent=…) writes it; with 0 it is one line.
class HEED_API JsonWriter {
 public:
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  template <class T>
  JsonWriter& value(const std::vector<T>& values) {
    begin_array();
    for (const auto& each : values) {
      value(each);
    }
    return end_array();
  }
  JsonWriter& null() { return raw("null"); }
  /// A piece of JSON made elsewhere.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void before_value();
  void new_line();

  std::string text_;
  int indent_;
  int depth_ = 0;
  bool empty_ = true;       // nothing yet in the innermost bracket
  bool after_key_ = false;  // the next value follows "key":
};

}  // namespace heed
