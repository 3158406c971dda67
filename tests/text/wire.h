#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace heed::test {

/// A field of protobuf's wire format: a number, or bytes behind their length.
inline std::string number(int field, uint32_t value) {
  std::string out;
  for (uint32_t rest : {static_cast<uint32_t>(field) << 3U, value}) {
    for (; rest >= 0x80U; rest >>= 7U) {
      out += static_cast<char>((rest & 0x7FU) | 0x80U);
    }
    out += static_cast<char>(rest);
  }
  return out;
}

inline std::string bytes(int field, const std::string& value) {
  std::string key = number(field, static_cast<uint32_t>(value.size()));
  key[0] = static_cast<char>(key[0] | 2);
  return key + value;
}

inline std::string piece(const std::string& text, float score, uint32_t type) {
  std::string raw(sizeof score, '\0');
  std::memcpy(raw.data(), &score, sizeof score);
  return bytes(1, bytes(1, text) + std::string(1, '\x15') + raw + number(3, type));
}

}  // namespace heed::test
