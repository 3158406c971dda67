#pragma once

#include "heed/tensor.h"

namespace heed {

/// x [B, H, Tq, 2m+1] -> [B, H, Tq, keys]: out[i][j] = x[i][clip(j - i - offset, -m, m) + m].
Tensor spread_distances(const Tensor& x, int64_t keys, int64_t offset);
/// Its transpose: w [B, H, Tq, Tk] -> [B, H, Tq, 2m+1], adding up what falls on one distance.
Tensor collect_distances(const Tensor& w, int64_t reach, int64_t offset);

/// table [H, Tq + Tk - 1] -> [1, H, Tq, Tk]: out[i][j] = table[j - i + Tq - 1]. A view of the table
/// in which every diagonal is one number, so that nothing grows with Tq · Tk. Has a gradient.
Tensor by_distance(const Tensor& table, int64_t queries, int64_t keys);

}  // namespace heed
