#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace heed::test {

/// A picture of 20 x 10 pixels in which every pixel differs.
inline std::string picture() {
  std::string bytes = "P6 20 10 255\n";
  for (int i = 0; i < 600; ++i) {
    bytes += static_cast<char>(i * 7 % 251);
  }
  return bytes;
}

/// Some seconds of a tone as WAV, 16 kHz and 16 bits.
inline std::string tone(uint32_t seconds = 1) {
  const uint32_t samples = 16000 * seconds;
  std::string bytes = "RIFF";
  const auto number = [&](uint32_t value, size_t size) {
    bytes.append(reinterpret_cast<const char*>(&value), size);
  };
  number(36 + 2 * samples, 4);
  bytes += "WAVEfmt ";
  number(16, 4), number(1, 2), number(1, 2), number(16000, 4), number(32000, 4), number(2, 2);
  number(16, 2);
  bytes += "data";
  number(2 * samples, 4);
  for (uint32_t i = 0; i < samples; ++i) {
    number(static_cast<uint16_t>(static_cast<int16_t>(8000 * std::sin(i * 0.17))), 2);
  }
  return bytes;
}

}  // namespace heed::test
