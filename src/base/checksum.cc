#include "base/checksum.h"

#include "base/streaming_fingerprint.h"

#define XXH_INLINE_ALL  // the header alone: nothing to link
#include <xxhash.h>
#include <zlib.h>

namespace heed {

uint32_t crc32_of(const void* data, size_t bytes, uint32_t so_far) {
  return static_cast<uint32_t>(crc32_z(so_far, static_cast<const Bytef*>(data), bytes));
}

uint64_t fingerprint_of(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

struct StreamingFingerprint::State {
  XXH3_state_t hash;
};

StreamingFingerprint::StreamingFingerprint() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->hash);
}
StreamingFingerprint::~StreamingFingerprint() = default;

void StreamingFingerprint::update(const void* data, size_t bytes) {
  XXH3_64bits_update(&state_->hash, data, bytes);
}

uint64_t StreamingFingerprint::digest() const { return XXH3_64bits_digest(&state_->hash); }

}  // namespace heed
