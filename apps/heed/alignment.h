#pragma once

#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/tensor.h"

namespace heed::app {

/// The cross-attention of one pass as an alignment: f64 rows of target tokens over source tokens,
/// the mean over the heads of `layer` (-1: the last but one, which aligns best without having been
/// trained to; Garg et al. 2019). `target` are the tokens written, without the start token.
std::vector<std::vector<double>> soft_alignment(const Model& model, const ModelInput& source,
                                                int64_t start, const std::vector<int64_t>& target,
                                                int64_t layer);

/// Pairs "source-target" of each target token and its strongest source token.
std::string hard_alignment(const std::vector<std::vector<double>>& soft);
/// Rows as "w,w,w", separated by spaces.
std::string alignment_text(const std::vector<std::vector<double>>& soft);

}  // namespace heed::app
