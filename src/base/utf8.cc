#include "base/utf8.h"

#include <cstdint>

#include "base/printable.h"

namespace heed {

Utf8Start utf8_start(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) {
    return {1, true};
  }
  if (lead < 0xc2 || lead > 0xf4) {
    return {1, false};
  }
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  size_t bytes = 1;
  for (; bytes < length && bytes < text.size(); ++bytes) {
    const auto byte = static_cast<uint8_t>(text[bytes]);
    if (byte < low || byte > high) {
      break;
    }
    low = 0x80, high = 0xbf;
  }
  return {bytes, bytes == length};
}

size_t utf8_sequence(std::string_view text) {
  const Utf8Start start = utf8_start(text);
  return start.whole ? start.bytes : 0;
}

std::string quote(std::string_view name, size_t limit) {
  return "'" + printable(name, limit) + "'";
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace heed
