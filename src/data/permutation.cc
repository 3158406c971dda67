#include "data/permutation.h"

#include <bit>

#include "heed/runtime.h"

namespace heed {

// A Feistel network permutes the smallest square of a power of two that holds `count`; results
// outside are sent through again, which ends because the network is a bijection.
uint64_t permuted(uint64_t index, uint64_t count, uint64_t seed, uint64_t stream) {
  if (count < 2) {
    return index;
  }
  const int half = (std::bit_width(count - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half;
    uint64_t right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const auto words = philox(seed, stream, round << 48 | right);
      const uint64_t next = left ^ ((uint64_t{words[0]} << 32 | words[1]) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

}  // namespace heed
