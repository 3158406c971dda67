#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heed {

/// CRC-32 (zlib's) of bytes that may come in pieces: start from 0 and feed the last value back in.
/// Any one flipped bit changes it.
uint32_t crc32_of(const void* data, size_t bytes, uint32_t so_far);
inline uint32_t crc32_of(std::string_view text, uint32_t so_far = 0) {
  return crc32_of(text.data(), text.size(), so_far);
}

/// A 64-bit fingerprint (XXH3) to tell files, configurations and data sets apart; no secret in it.
uint64_t fingerprint_of(const void* data, size_t bytes, uint64_t seed);
inline uint64_t fingerprint_of(std::string_view text, uint64_t seed = 0) {
  return fingerprint_of(text.data(), text.size(), seed);
}

}  // namespace heed
