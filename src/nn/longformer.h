#pragma once

#include "heed/attention.h"
#include "heed/nn.h"

namespace heed {

/// What global tokens are projected by.
struct GlobalProjections {
  Linear query, key, value;
};

/// longformer_attention() of x [B, T, width], whose q, k and v are in `in`. What global tokens need
/// is computed from x, and no more of it than they need. `first_example` is the index of the first
/// sequence in the whole batch, for dropout.
Tensor longformer_attention(const Tensor& x, const GlobalProjections& global,
                            const LongformerInputs& in, int64_t first_example = 0);

/// Of one sequence x [1, T, width] the results [1, H, N, D] of its global tokens at positions i64
/// [N], which attend to everything. Few of them are multiplied by the weights of keys and values
/// instead of all tokens: q · (W x) is (q W) · x, and the mean of W x is W times the mean of x.
Tensor attend_everywhere(const Tensor& x, const Tensor& position, const GlobalProjections& global,
                         const AttentionOptions& options, int64_t heads);

}  // namespace heed
