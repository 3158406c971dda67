#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace heed {

/// fingerprint_of() with seed 0 of data that comes in several chunks.
class StreamingFingerprint {
 public:
  StreamingFingerprint();
  ~StreamingFingerprint();
  StreamingFingerprint(const StreamingFingerprint&) = delete;
  StreamingFingerprint& operator=(const StreamingFingerprint&) = delete;

  void update(const void* data, size_t bytes);
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed
