#pragma once

#include "heed/transformer.h"

namespace heed {

/// bigbird_attention() over all pairs of positions, for observers: quadratic. `in` may have rows
/// behind `length` that fill up the last block; they are left out. A block that a query sees more
/// than once counts as often, by a bias of its logarithm. Returns [B, H, length, D].
Tensor bigbird_whole_map(const BigBirdInputs& in, int64_t length, const Tensor& key_padding);

}  // namespace heed
