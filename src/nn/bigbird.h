#pragma once

#include "heed/transformer.h"

namespace heed {

/// bigbird_attention(), shown to the observer in scope as one matrix of weights. `in` may have rows
/// behind `length` that fill up the last block; they are left out. Returns [B, H, length, D].
Tensor shown_bigbird_attention(const BigBirdInputs& in, int64_t length, const Tensor& key_padding);

}  // namespace heed
