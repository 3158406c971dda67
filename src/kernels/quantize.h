#pragma once

#include <cstdint>

#include "kernels/quantized_blocks.h"

namespace heed::kernels {

/// Whether quantize() writes a block type. The I-quants below four bits, MXFP4 and the ternary
/// types are only read.
bool can_quantize(Element type);

/// `count` weights (a multiple of the type's block) as blocks of `type`. `importance` [count],
/// where it is given, says how much the square of a weight's error counts: the mean square of what
/// it is multiplied by. q8_0, and q4_0 without importance, round as ggml does, to the bit; the
/// other types search their scales by least squares. Returns false where a weight is not finite or
/// too large for a scale in f16; the blocks are then of no use.
bool quantize(Element type, const float* x, void* blocks, int64_t count,
              const float* importance = nullptr);

/// The weights of blocks of any quantized type, `count` of them.
void dequantize(Element type, const void* blocks, float* out, int64_t count);

}  // namespace heed::kernels
