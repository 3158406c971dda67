#include <cmath>
#include <numbers>

#include "heed/runtime.h"

namespace heed {
namespace {
thread_local RandomState t_state;
}

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t position) {
  uint32_t c0 = static_cast<uint32_t>(position);
  uint32_t c1 = static_cast<uint32_t>(position >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream);
  uint32_t c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

uint32_t Random::next_u32() {
  const uint32_t word = philox(key_.seed, key_.stream, position_ / 4)[position_ % 4];
  ++position_;
  return word;
}

uint64_t Random::next_u64() {
  const uint64_t high = next_u32();
  return high << 32 | next_u32();
}

uint64_t Random::below(uint64_t bound) {
  const uint64_t limit = bound == 0 ? 0 : UINT64_MAX - UINT64_MAX % bound;
  uint64_t value = next_u64();
  while (value >= limit) {
    value = next_u64();
  }
  return value % bound;
}

double Random::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

RandomState random_state() { return t_state; }
void set_random_state(RandomState state) { t_state = state; }
void manual_seed(uint64_t seed) { t_state = {seed, 0}; }
RandomKey next_random_key() { return {t_state.seed, t_state.next_stream++}; }

}  // namespace heed
