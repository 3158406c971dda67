#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heed {

/// CRC-32 as zlib computes it. For data in several chunks start from 0 and pass the previous result
/// as `so_far`. Detects every single-bit error.
uint32_t crc32_of(const void* data, size_t bytes, uint32_t so_far);
inline uint32_t crc32_of(std::string_view text, uint32_t so_far = 0) {
  return crc32_of(text.data(), text.size(), so_far);
}

/// 64-bit XXH3 hash that identifies files, configurations and datasets. Not cryptographic.
uint64_t fingerprint_of(const void* data, size_t bytes, uint64_t seed);
inline uint64_t fingerprint_of(std::string_view text, uint64_t seed = 0) {
  return fingerprint_of(text.data(), text.size(), seed);
}

}  // namespace heed
