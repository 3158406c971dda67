#include "models/rope.h"

#include <cmath>
#include <numbers>

#include "base/check.h"
#include "models/common.h"

namespace heed {
namespace {

/// Llama 3.1's scaling: long waves are stretched by `factor`, short ones left, those between
/// blended.
void scale_llama3(const Json& scaling, double length, std::vector<double>& frequencies) {
  const double factor = positive_or(scaling, "factor", 8.0);
  const double low = positive_or(scaling, "low_freq_factor", 1.0);
  const double high = positive_or(scaling, "high_freq_factor", 4.0);
  check_data(high > low, scaling.file(), "high_freq_factor {} must be above low_freq_factor {}",
             high, low);
  const double context = positive_or(scaling, "original_max_position_embeddings", length);
  for (double& frequency : frequencies) {
    const double turns = context * frequency / (2.0 * std::numbers::pi);
    const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = (1.0 - keep) * frequency / factor + keep * frequency;
  }
}

/// YaRN: long waves are stretched, short ones left, those between blended by their index.
void scale_yarn(const Json& scaling, double theta, double context,
                std::vector<double>& frequencies) {
  const double original = positive_or(scaling, "original_max_position_embeddings", context);
  const double factor = positive_or(scaling, "factor", context / original);
  const auto dim = 2.0 * static_cast<double>(frequencies.size());
  const auto index_of = [&](double rotations) {
    return dim * std::log(original / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(theta));
  };
  double low = index_of(positive_or(scaling, "beta_fast", 32.0));
  double high = index_of(positive_or(scaling, "beta_slow", 1.0));
  if (scaling.boolean_or("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) {
    high += 0.001;
  }
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / factor * ramp + frequencies[i] * (1.0 - ramp);
  }
}

/// What YaRN and LongRoPE multiply cosines and sines by.
double attention_factor(const Json& scaling, const std::string& type, double context) {
  if (scaling.has("attention_factor")) {
    return scaling.number("attention_factor", 0.0, 1e6);
  }
  const double original = positive_or(scaling, "original_max_position_embeddings", context);
  const double factor = positive_or(scaling, "factor", context / original);
  if (type == "yarn") {
    const auto scale = [factor](double m) {
      return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
    };
    const double mscale = scaling.number_or("mscale", 0.0, 0.0, 1e6);
    const double all = scaling.number_or("mscale_all_dim", 0.0, 0.0, 1e6);
    return mscale > 0.0 && all > 0.0 ? scale(mscale) / scale(all) : scale(1.0);
  }
  if (type == "longrope") {
    return factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
  }
  return 1.0;
}

/// LongRoPE: one factor per pair; `key` names the short or the long ones.
void scale_by_factors(const Json& scaling, const char* key, std::vector<double>& frequencies) {
  const std::vector<Json> factors = scaling.at(key).elements();
  check_data(factors.size() == frequencies.size(), scaling.file(),
             "{} has {} factors; {} are needed", key, factors.size(), frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] /= factors[i].number(1e-6, 1e6);
  }
}

/// Settings with the original length that stands beside them (Phi-3), which counts for more.
Json with_original(const Json& config, const Json& settings) {
  constexpr const char* kKey = "original_max_position_embeddings";
  return !config.has(kKey) ? settings
                           : JsonBuilder(settings).set(kKey, config.at(kKey)).build(config.file());
}

}  // namespace

std::optional<Json> rotary_settings(const Json& config, const std::string& layer_type) {
  const auto parameters = config.find("rope_parameters");
  if (parameters && !layer_type.empty() && parameters->has(layer_type)) {
    return parameters->find(layer_type);
  }
  const bool local = layer_type == "sliding_attention" && config.has("rope_local_base_freq");
  const auto found = parameters ? parameters : local ? std::nullopt : config.find("rope_scaling");
  if (!found) {
    return std::nullopt;
  }
  found->find("rope_type");  // throws where it is no object
  return with_original(config, *found);
}

std::string rotary_type(const std::optional<Json>& settings) {
  const std::string type =
      settings ? settings->string_or("rope_type", settings->string_or("type", "default"))
               : "default";
  return type == "su" ? "longrope" : type;
}

namespace {

std::vector<double> plain_frequencies(const Json& config, int64_t dim, double theta) {
  check_data(dim > 0 && dim % 2 == 0, config.file(),
             "rotary positions need an even number of columns; a head has {}", dim);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dim; i += 2) {
    frequencies.push_back(1.0 / std::pow(theta, static_cast<double>(i) / static_cast<double>(dim)));
  }
  return frequencies;
}

double context_of(const Json& config) {
  return positive_or(config, "max_position_embeddings", 2048.0);
}

}  // namespace

double rotary_theta(const Json& config, const std::string& layer_type) {
  const auto settings = rotary_settings(config, layer_type);
  if (settings && settings->has("rope_theta")) {
    return positive_or(*settings, "rope_theta", 10000.0);
  }
  if (layer_type == "sliding_attention" && config.has("rope_local_base_freq")) {
    return positive_or(config, "rope_local_base_freq", 10000.0);
  }
  return positive_or(config, "rope_theta", 10000.0);
}

int64_t rotary_dim(const Json& config, int64_t head_dim, double otherwise) {
  double fraction = config.number_or("rotary_pct", otherwise, 0.0, 1.0);
  fraction = config.number_or("partial_rotary_factor", fraction, 0.0, 1.0);
  if (const auto settings = rotary_settings(config)) {
    fraction = settings->number_or("partial_rotary_factor", fraction, 0.0, 1.0);
  }
  return static_cast<int64_t>(static_cast<double>(head_dim) * fraction);
}

std::vector<double> rotary_frequencies(const Json& config, int64_t dim,
                                       const std::string& layer_type) {
  const double theta = rotary_theta(config, layer_type);
  std::vector<double> frequencies = plain_frequencies(config, dim, theta);
  const auto settings = rotary_settings(config, layer_type);
  const std::string type = rotary_type(settings);
  if (type == "linear") {
    for (double& frequency : frequencies) {
      frequency /= positive_or(*settings, "factor", 1.0);
    }
  } else if (type == "llama3") {
    scale_llama3(*settings, context_of(config), frequencies);
  } else if (type == "yarn") {
    scale_yarn(*settings, theta, context_of(config), frequencies);
  } else if (type == "longrope") {
    scale_by_factors(*settings, "short_factor", frequencies);
  } else {
    // dynamic: the plain frequencies up to max_position_embeddings.
    check_data(type == "default" || type == "dynamic", config.file(),
               "rope_type '{}' is not supported; heed knows default, linear, dynamic, llama3, yarn "
               "and longrope",
               type);
  }
  return frequencies;
}

double rotary_attention_factor(const Json& config, const std::string& layer_type) {
  const auto settings = rotary_settings(config, layer_type);
  return settings ? attention_factor(*settings, rotary_type(settings), context_of(config)) : 1.0;
}

bool rotary_depends_on_length(const Json& config, const std::string& layer_type) {
  const auto settings = rotary_settings(config, layer_type);
  const std::string type = rotary_type(settings);
  // A GGUF file of a Llama 3 has the same factors for any length.
  return type == "dynamic" || (type == "longrope" && settings->at("short_factor").dump() !=
                                                         settings->at("long_factor").dump());
}

int64_t rotary_long_from(const Json& config) {
  const auto settings = rotary_settings(config);
  if (rotary_type(settings) != "longrope" || !rotary_depends_on_length(config)) {
    return 0;
  }
  return static_cast<int64_t>(
      positive_or(*settings, "original_max_position_embeddings", context_of(config)));
}

int64_t rotary_context(const Json& config, int64_t context) {
  const auto settings = rotary_settings(config, "");
  const double factor =
      rotary_type(settings) == "dynamic" ? settings->number_or("factor", 1.0, 1.0, 1e6) : 1.0;
  return static_cast<int64_t>(factor * static_cast<double>(context));
}

Rotary rotary_of(const Json& config, int64_t dim, int64_t context, const RopeOptions& options) {
  const std::vector<double> frequencies = rotary_frequencies(config, dim, options.layer_type);
  const auto settings = rotary_settings(config, options.layer_type);
  const std::string type = rotary_type(settings);
  const double theta = rotary_theta(config, options.layer_type);
  if (type == "dynamic") {
    Rotary rotary(frequencies, context, options.interleaved);
    rotary.set_dynamic(theta, settings->number_or("factor", 1.0, 1.0, 1e6),
                       static_cast<int64_t>(context_of(config)));
    return rotary;
  }
  if (type != "yarn" && type != "longrope") {
    return Rotary(frequencies, context, options.interleaved);
  }
  const double scale = rotary_attention_factor(config, options.layer_type);
  Rotary rotary(frequencies, context, options.interleaved, scale);
  if (type == "longrope" && rotary_depends_on_length(config, options.layer_type)) {
    std::vector<double> longer = plain_frequencies(config, dim, theta);
    scale_by_factors(*settings, "long_factor", longer);
    rotary.set_long(longer, settings->integer_or("original_max_position_embeddings", context, 1,
                                                 int64_t{1} << 31));
  }
  return rotary;
}

}  // namespace heed
