#pragma once

#include <cstdint>

namespace heed {

/// Where `index` goes in a random order of [0, count): a bijection that needs no memory, one for
/// every (seed, stream).
uint64_t permuted(uint64_t index, uint64_t count, uint64_t seed, uint64_t stream);

}  // namespace heed
