#pragma once

#include <vector>

#include "heed/nn.h"
#include "io/json.h"

namespace heed {

/// The base of the frequencies, wherever the configuration keeps it.
double rotary_theta(const Json& config);

/// Inverse frequencies of a head's pairs, from rope_parameters (transformers 5) or rope_theta and
/// rope_scaling (before): the types default, linear, llama3, and
/// longrope with one set of factors.
std::vector<double> rotary_frequencies(const Json& config, int64_t head_dim);

Rotary rotary_of(const Json& config, int64_t head_dim, int64_t context);

}  // namespace heed
