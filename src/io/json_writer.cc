#include "io/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace heed {
namespace {

/// Bytes of an ill-formed beginning that one U+FFFD stands for: as far as a sequence could go on
/// from there, as Unicode recommends and Rust and Python do.
size_t bad_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xe0 || lead > 0xf4 || text.size() < 2) {
    return 1;
  }
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) {
    return 1;
  }
  return lead >= 0xf0 && text.size() > 2 && (byte(2) & 0xc0) == 0x80 ? 3 : 2;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 0) {
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
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? bad_bytes(text) : length);
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
