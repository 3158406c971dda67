#pragma once

#include <vector>

#include "heed/models.h"

namespace heed {

/// The cross-attention of one pass as an alignment: rows of target tokens over source tokens, the
/// mean over the heads of `layer` (-1: the last but one, which aligns best without having been
/// trained to; Garg et al. 2019). `target` are the tokens written, without the start token `start`.
std::vector<std::vector<double>> soft_alignment(const Model& model, const ModelInput& source,
                                                int64_t start, const std::vector<int64_t>& target,
                                                int64_t layer);

}  // namespace heed
