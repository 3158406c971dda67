#pragma once

#include <cstdint>

#include "heed/half.h"

namespace heed::kernels {

inline constexpr int64_t kBlock = 32;  // weights that share a scale

/// GGUF's blocks. A weight is scale * value, and scale * (nibble - 8).
struct BlockQ8 {
  Half scale;
  int8_t values[kBlock];
};
struct BlockQ4 {
  Half scale;
  uint8_t pairs[kBlock / 2];  // low nibbles: weights 0 … 15; high nibbles: 16 … 31
};
static_assert(sizeof(BlockQ8) == 34 && sizeof(BlockQ4) == 18);

/// `count` (a multiple of 32) weights to blocks, with ggml's rounding to the bit. Returns false
/// where a weight is not finite or too large for a scale in f16; the blocks are then of no use.
bool quantize(const float* x, BlockQ8* out, int64_t count);
bool quantize(const float* x, BlockQ4* out, int64_t count);

void dequantize(const BlockQ8* x, float* out, int64_t count);
void dequantize(const BlockQ4* x, float* out, int64_t count);

}  // namespace heed::kernels
