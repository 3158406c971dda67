#pragma once

#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/nn.h"

namespace heed {

/// The base of the frequencies, wherever the configuration keeps it. `layer_type` picks the entry
/// of configurations that have one per type ("sliding_attention").
double rotary_theta(const Json& config, const std::string& layer_type = "");

/// Columns of a head that are rotated: head_dim times partial_rotary_factor (or rotary_pct),
/// `otherwise` where config.json mentions none.
int64_t rotary_dim(const Json& config, int64_t head_dim, double otherwise = 1.0);

/// Inverse frequencies of a head's pairs, from rope_parameters (transformers 5) or rope_theta and
/// rope_scaling (before): the types default, linear, dynamic, llama3, yarn and longrope (its short
/// factors).
std::vector<double> rotary_frequencies(const Json& config, int64_t dim,
                                       const std::string& layer_type = "");

struct RopeOptions {
  std::string layer_type;
  bool interleaved = false;
};
Rotary rotary_of(const Json& config, int64_t dim, int64_t context, const RopeOptions& options = {});

}  // namespace heed
