#include "models/rope_gguf.h"

#include <cmath>

#include "base/check.h"
#include "models/common.h"
#include "models/rope.h"

namespace heed {
namespace {

constexpr const char* kFactors = "rope_freqs.weight";
constexpr const char* kLongFactors = "rope_factors_long.weight";
constexpr const char* kShortFactors = "rope_factors_short.weight";
constexpr const char* kOriginal = "original_max_position_embeddings";

/// What YaRN multiplies cosines and sines by where nothing else is said.
double yarn_scale(double factor) { return factor > 1.0 ? 0.1 * std::log(factor) + 1.0 : 1.0; }

void write_factors(GgufOutput& file, const char* name, const std::vector<double>& factors) {
  const std::vector<float> values(factors.begin(), factors.end());
  file.tensor(name, Tensor::from(values, {static_cast<int64_t>(values.size())}));
}

/// What scaled frequencies are divided by, as GGUF keeps Llama 3's scaling.
void write_divisors(GgufOutput& file, const Json& config, int64_t dim) {
  const std::vector<double> scaled = rotary_frequencies(config, dim, kWholeLayers);
  const double theta = rotary_theta(config, kWholeLayers);
  std::vector<double> divisors;
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dim);
    divisors.push_back(std::pow(theta, exponent) / scaled[i]);
  }
  write_factors(file, kFactors, divisors);
}

std::vector<double> numbers_of(const Json& settings, const char* key) {
  std::vector<double> numbers;
  for (const Json& each : settings.at(key).elements()) {
    numbers.push_back(each.number(1e-6, 1e6));
  }
  return numbers;
}

void read_yarn(const GgufMetadata& file, JsonBuilder& scaling) {
  const double factor = file.number("rope.scaling.factor", 1.0);
  scaling.set("rope_type", "yarn").set("factor", factor);
  if (file.has("rope.scaling.attn_factor")) {
    scaling.set("attention_factor",
                file.number("rope.scaling.attn_factor", 1.0) * yarn_scale(factor));
  }
  for (const char* key : {"beta_fast", "beta_slow"}) {
    const std::string name = fmt::format("rope.scaling.yarn_{}", key);
    if (file.has(name)) {
      scaling.set(key, file.number(name, 1.0));
    }
  }
}

void write_yarn(GgufOutput& file, const Json& config, const Json& settings) {
  const double context = positive_or(config, "max_position_embeddings", 2048.0);
  const double original = positive_or(settings, kOriginal, context);
  const double factor = positive_or(settings, "factor", context / original);
  check(settings.boolean_or("truncate", true), "gguf", "has no place for YaRN without truncate");
  file.string("rope.scaling.type", "yarn");
  file.number("rope.scaling.factor", factor);
  file.size("rope.scaling.original_context_length", static_cast<int64_t>(original));
  const double scale = rotary_attention_factor(config, kWholeLayers);
  if (std::abs(scale - yarn_scale(factor)) > 1e-9) {
    file.number("rope.scaling.attn_factor", scale / yarn_scale(factor));
  }
  for (const char* key : {"beta_fast", "beta_slow"}) {
    if (settings.has(key)) {
      file.number(fmt::format("rope.scaling.yarn_{}", key), positive_or(settings, key, 1.0));
    }
  }
}

}  // namespace

bool is_gguf_rope(std::string_view tensor) {
  return tensor == kFactors || tensor == kLongFactors || tensor == kShortFactors;
}

void read_gguf_rope(const GgufMetadata& file, JsonBuilder& config) {
  if (config.has("rope_scaling") || config.has("rope_parameters")) {
    return;  // heed's own configuration came along and is more exact
  }
  const std::string type = file.string("rope.scaling.type", "none");
  const int64_t original = file.size("rope.scaling.original_context_length", 0);
  JsonBuilder scaling;
  if (file.has_tensor(kLongFactors) && file.has_tensor(kShortFactors)) {
    scaling.set("rope_type", "longrope")
        .set("short_factor", file.values(kShortFactors))
        .set("long_factor", file.values(kLongFactors))
        .set("attention_factor", file.number("rope.scaling.attn_factor", 1.0));
    if (original > 0) {
      config.set(kOriginal, original);  // where Phi-3 has it
    }
  } else if (file.has_tensor(kFactors)) {
    const std::vector<double> factors = file.values(kFactors);
    scaling.set("rope_type", "longrope")
        .set("short_factor", factors)
        .set("long_factor", factors)
        .set("attention_factor", 1.0);
  } else if (type == "linear") {
    scaling.set("rope_type", "linear").set("factor", file.number("rope.scaling.factor", 1.0));
  } else if (type == "yarn") {
    read_yarn(file, scaling);
  } else {
    check_data(type == "none", file.file(),
               "rope.scaling.type '{}' is not supported; heed knows none, linear, yarn, and "
               "longrope with the tensors {} and {}",
               type, kShortFactors, kLongFactors);
    return;
  }
  if (original > 0) {
    scaling.set(kOriginal, original);
  }
  config.set("rope_scaling", scaling);
}

void write_gguf_rope(GgufOutput& file, const Json& config, int64_t dim) {
  file.size("rope.dimension_count", dim);
  file.number("rope.freq_base", rotary_theta(config, kWholeLayers));
  const auto settings = rotary_settings(config, kWholeLayers);
  const std::string type = rotary_type(settings);
  if (type == "linear") {
    file.string("rope.scaling.type", "linear");
    file.number("rope.scaling.factor", positive_or(*settings, "factor", 1.0));
  } else if (type == "yarn") {
    write_yarn(file, config, *settings);
  } else if (type == "llama3") {
    write_divisors(file, config, dim);
  } else if (type == "longrope") {
    const std::vector<double> shorter = numbers_of(*settings, "short_factor");
    const std::vector<double> longer = numbers_of(*settings, "long_factor");
    const double scale = rotary_attention_factor(config, kWholeLayers);
    if (shorter == longer && scale == 1.0) {
      write_factors(file, kFactors, shorter);
      return;
    }
    const auto context = static_cast<int64_t>(positive_or(config, "max_position_embeddings", 2048));
    file.string("rope.scaling.type", "longrope");
    file.number("rope.scaling.attn_factor", scale);
    file.size("rope.scaling.original_context_length", size_or(*settings, kOriginal, context));
    write_factors(file, kShortFactors, shorter);
    write_factors(file, kLongFactors, longer);
  }
}

}  // namespace heed
