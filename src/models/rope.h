#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/nn.h"

namespace heed {

/// The layer type of layers without a window.
inline constexpr const char* kWholeLayers = "full_attention";

/// rope_parameters (transformers 5) or rope_scaling (before): the entry of a layer type where there
/// is one per type, else all of it. Not the base, which may stand elsewhere: rotary_theta().
std::optional<Json> rotary_settings(const Json& config, const std::string& layer_type = "");
/// "default", "linear", "dynamic", "llama3", "yarn" or "longrope", or a name that heed does not
/// know.
std::string rotary_type(const std::optional<Json>& settings);
/// What cosines and sines are multiplied by.
double rotary_attention_factor(const Json& config, const std::string& layer_type = "");
/// Whether a long sequence has other angles than a short one.
bool rotary_depends_on_length(const Json& config, const std::string& layer_type = "");

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

/// The length beyond which LongRoPE has other angles; 0: no such length.
int64_t rotary_long_from(const Json& config);
/// Positions that a model of `context` positions can tell apart: more with dynamic scaling.
int64_t rotary_context(const Json& config, int64_t context);

struct RopeOptions {
  std::string layer_type;
  bool interleaved = false;
};
Rotary rotary_of(const Json& config, int64_t dim, int64_t context, const RopeOptions& options = {});

}  // namespace heed
