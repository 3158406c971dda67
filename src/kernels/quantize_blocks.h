#pragma once

#include "kernels/quantized_blocks.h"

namespace heed::kernels {

/// One block of weights x; w says how much the square of each weight's error counts. False where
/// the scale does not fit into f16.
bool quantize_block(const float* x, const float* w, BlockQ4& out);
bool quantize_block(const float* x, const float* w, BlockQ4_1& out);
bool quantize_block(const float* x, const float* w, BlockQ5_0& out);
bool quantize_block(const float* x, const float* w, BlockQ5_1& out);
bool quantize_block(const float* x, const float* w, BlockIQ4NL& out);
bool quantize_block(const float* x, const float* w, BlockQ2K& out);
bool quantize_block(const float* x, const float* w, BlockQ3K& out);
bool quantize_block(const float* x, const float* w, BlockQ4K& out);
bool quantize_block(const float* x, const float* w, BlockQ5K& out);
bool quantize_block(const float* x, const float* w, BlockQ6K& out);
bool quantize_block(const float* x, const float* w, BlockIQ4XS& out);

}  // namespace heed::kernels
