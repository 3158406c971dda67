#include "base/text.h"

#include <fmt/format.h>

#include <cstdint>

namespace heed {

size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) {
    return 0;
  }
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) {
    return 0;
  }
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  return length;
}

std::string quote(std::string_view name, size_t limit) {
  std::string text = "'";
  while (!name.empty() && text.size() <= limit) {
    const size_t length = utf8_sequence(name);
    const auto byte = static_cast<uint8_t>(name[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
      name.remove_prefix(1);
    } else {
      text += name.substr(0, length);
      name.remove_prefix(length);
    }
  }
  return text + (name.empty() ? "'" : "…'");
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
