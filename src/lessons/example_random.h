#pragma once

#include <array>
#include <cstddef>

#include "heed/lessons.h"
#include "heed/runtime.h"

namespace heed {

enum class SyntheticStream : uint64_t {
  coreference,
  dates,
  reverse,
  copy,
  addition,
  plus_two,
  shapes
};

/// The random numbers of one example: no two sets, splits or indices share any.
inline Random example_random(const SyntheticOptions& options, SyntheticStream set, uint64_t index) {
  return Random(options.seed,
                static_cast<uint64_t>(set) << 56 | uint64_t{options.held_out} << 55 | index);
}

template <class T, size_t N>
const T& pick(Random& random, const std::array<T, N>& values) {
  return values[random.below(N)];
}

}  // namespace heed
