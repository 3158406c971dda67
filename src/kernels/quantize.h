#pragma once

#include <cstdint>

#include "kernels/quantized_blocks.h"

namespace heed::kernels {

/// `count` weights (a multiple of the type's block) as blocks of `type`, q8_0 or q4_0, with ggml's
/// rounding to the bit. Returns false where a weight is not finite or too large for a scale in f16;
/// the blocks are then of no use.
bool quantize(Element type, const float* x, void* blocks, int64_t count);

/// The weights of blocks of any quantised type, `count` of them.
void dequantize(Element type, const void* blocks, float* out, int64_t count);

}  // namespace heed::kernels
