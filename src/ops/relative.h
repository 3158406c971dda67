#pragma once

#include "heed/tensor.h"

namespace heed {

/// x [B, H, Tq, 2m+1] -> [B, H, Tq, keys]: out[i][j] = x[i][clip(j - i - offset, -m, m) + m].
Tensor spread_distances(const Tensor& x, int64_t keys, int64_t offset);
/// Its transpose: w [B, H, Tq, Tk] -> [B, H, Tq, 2m+1], adding up what falls on one distance.
Tensor collect_distances(const Tensor& w, int64_t reach, int64_t offset);

}  // namespace heed
