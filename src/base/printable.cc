#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace heed {
namespace {

/// The code point of a well-formed sequence.
uint32_t code_point(std::string_view sequence) {
  const auto lead = static_cast<uint8_t>(sequence[0]);
  uint32_t value = sequence.size() == 1 ? lead : lead & (0x7fu >> sequence.size());
  for (const char c : sequence.substr(1)) {
    value = value << 6 | (static_cast<uint8_t>(c) & 0x3fu);
  }
  return value;
}

/// Code points that change how the rest of a line is shown: C1 controls, marks and overrides of
/// direction, line and paragraph separators, invisible operators and the byte order mark.
bool changes_display(uint32_t code) {
  return (code >= 0x80 && code <= 0x9f) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/// Appends the first sequence of `text`, escaped if need be, and returns its length.
size_t append_sequence(std::string& out, std::string_view text, bool keep_lines) {
  const auto byte = static_cast<uint8_t>(text[0]);
  if (byte < 0x80) {
    const bool control = byte < 0x20 || byte == 0x7f;
    if (control && !(keep_lines && (byte == '\n' || byte == '\t'))) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += text[0];
    }
    return 1;
  }
  const size_t length = utf8_sequence(text);
  if (length == 0) {
    out += fmt::format("\\x{:02x}", byte);
    return 1;
  }
  const std::string_view sequence = text.substr(0, length);
  if (const uint32_t code = code_point(sequence); changes_display(code)) {
    out += fmt::format("\\u{{{:04x}}}", code);
  } else {
    out += sequence;
  }
  return length;
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= limit) {
      return out + "…";
    }
    text.remove_prefix(append_sequence(out, text, false));
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    text.remove_prefix(append_sequence(out, text, true));
  }
  return out;
}

}  // namespace heed
