#include "models/rope.h"

#include <cmath>
#include <numbers>

#include "base/check.h"
#include "models/common.h"

namespace heed {
namespace {

/// Llama 3.1's scaling: long waves are stretched by `factor`, short ones left, those between
/// blended.
void scale_llama3(const Json& scaling, std::vector<double>& frequencies) {
  const double factor = positive_or(scaling, "factor", 8.0);
  const double low = positive_or(scaling, "low_freq_factor", 1.0);
  const double high = positive_or(scaling, "high_freq_factor", 4.0);
  check_data(high > low, scaling.file(), "high_freq_factor {} must be above low_freq_factor {}",
             high, low);
  const double context = positive_or(scaling, "original_max_position_embeddings", 8192.0);
  for (double& frequency : frequencies) {
    const double turns = context * frequency / (2.0 * std::numbers::pi);
    const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = (1.0 - keep) * frequency / factor + keep * frequency;
  }
}

/// One factor a pair, the same for short and long texts (GGUF's rope_freqs).
void scale_by_factors(const Json& scaling, std::vector<double>& frequencies) {
  const std::vector<Json> factors = scaling.at("long_factor").elements();
  const std::vector<Json> others = scaling.at("short_factor").elements();
  const bool fits = factors.size() == frequencies.size() && others.size() == factors.size() &&
                    scaling.number("attention_factor", 0.0, 1e6) == 1.0;
  check_data(fits, scaling.file(),
             "longrope is supported with {} factors and an attention_factor of 1 only",
             frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double factor = factors[i].number(1e-6, 1e6);
    check_data(others[i].number() == factor, scaling.file(),
               "longrope with other factors for short texts is not supported");
    frequencies[i] /= factor;
  }
}

}  // namespace

double rotary_theta(const Json& config) {
  const auto parameters = config.find("rope_parameters");
  return positive_or(parameters && parameters->has("rope_theta") ? *parameters : config,
                     "rope_theta", 10000.0);
}

std::vector<double> rotary_frequencies(const Json& config, int64_t head_dim) {
  check_data(head_dim % 2 == 0, config.file(),
             "a head width of {} is not even, rotary pairs need it", head_dim);
  const auto parameters = config.find("rope_parameters");
  const auto scaling = parameters ? parameters : config.find("rope_scaling");
  const double theta = rotary_theta(config);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim; i += 2) {
    frequencies.push_back(1.0 /
                          std::pow(theta, static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  const std::string type =
      scaling ? scaling->string_or("rope_type", scaling->string_or("type", "default")) : "default";
  if (type == "linear") {
    for (double& frequency : frequencies) {
      frequency /= positive_or(*scaling, "factor", 1.0);
    }
  } else if (type == "llama3") {
    scale_llama3(*scaling, frequencies);
  } else if (type == "longrope") {
    scale_by_factors(*scaling, frequencies);
  } else {
    check_data(type == "default", config.file(),
               "rope_type '{}' is not supported; heed knows default, linear, llama3 and longrope",
               type);
  }
  return frequencies;
}

Rotary rotary_of(const Json& config, int64_t head_dim, int64_t context) {
  return Rotary(rotary_frequencies(config, head_dim), context);
}

}  // namespace heed
