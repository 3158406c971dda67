#pragma once

#include <array>
#include <cstdint>

#include "heed/export.h"

namespace heed {

/// Philox4x32-10: four random words from (seed, stream, position). No state: the same three numbers
/// give the same words on any thread, in any order.
HEED_API std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t position);

/// Where the random numbers of one op come from.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

/// A sequence of random numbers over one (seed, stream): what shuffling, initialisers and samplers
/// use. Copyable; position() and seek() make it resumable.
class HEED_API Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : key_{seed, stream} {}

  uint32_t next_u32();
  uint64_t next_u64();
  /// Uniform in [0, bound), without modulo bias.
  uint64_t below(uint64_t bound);
  /// Uniform in [0, 1).
  double uniform();
  /// Standard normal.
  double normal();

  uint64_t position() const { return position_; }
  void seek(uint64_t position) { position_ = position; }

 private:
  RandomKey key_;
  uint64_t position_ = 0;  // counts words
};

/// The generator behind dropout and the like on this thread: every op takes the next stream.
/// checkpoint() and resume set it back to replay the same masks.
struct RandomState {
  uint64_t seed = 0;
  uint64_t next_stream = 0;
};
HEED_API RandomState random_state();
HEED_API void set_random_state(RandomState state);
HEED_API void manual_seed(uint64_t seed);
HEED_API RandomKey next_random_key();

}  // namespace heed
