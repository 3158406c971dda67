#include "io/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/utf8.h"

namespace heed {

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const Utf8Start start = utf8_start(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (!start.whole) {
      out += "\xef\xbf\xbd";
    } else if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[0];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\r') {
      out += "\\r";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += text.substr(0, start.bytes);
    }
    text.remove_prefix(start.bytes);
  }
  out += '"';
}

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const std::string digits = fmt::format("{}", value);
  out += digits;
  if (digits.find_first_of(".e") == std::string::npos) {
    out += ".0";
  }
}

void JsonWriter::new_line() {
  if (indent_ > 0) {
    text_ += '\n';
    text_.append(static_cast<size_t>(indent_) * static_cast<size_t>(depth_), ' ');
  }
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!empty_) {
    text_ += ',';
  }
  if (depth_ > 0) {
    new_line();
  }
  empty_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  text_ += bracket;
  ++depth_;
  empty_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (!empty_) {
    new_line();
  }
  text_ += bracket;
  empty_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  before_value();
  append_json_string(text_, name);
  text_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_json_string(text_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) { return raw(flag ? "true" : "false"); }

JsonWriter& JsonWriter::value(double number) {
  before_value();
  append_json_number(text_, number);
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  text_ += json;
  return *this;
}

}  // namespace heed
