#pragma once

#include <cstdint>

#include "base/sample_ranges.h"
#include "heed/runtime.h"
#include "kernels/types.h"

namespace heed::kernels {

/// words[4 b + w] = philox(key, first_block + b)[w] for b < blocks.
void philox_words(uint32_t* words, RandomKey key, uint64_t first_block, int64_t blocks);

/// Elements whose word is below this are dropped with probability p.
inline uint32_t drop_threshold(double p) { return static_cast<uint32_t>(p * 4294967296.0); }

/// y[i] = x[i] / (1 - p), or 0 with probability p: word i of the key decides. y may be x. The same
/// call on dy gives the gradient. 0 <= p < 1.
template <class T>
void dropout(T* y, const T* x, RandomKey key, double p, int64_t count);

/// The same with words of their own for the elements of each example.
template <class T>
void dropout(T* y, const T* x, RandomKey key, double p, std::span<const SampleRange> ranges);

}  // namespace heed::kernels
