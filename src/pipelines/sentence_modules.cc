#include "pipelines/sentence_modules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "heed/io.h"

namespace heed {
namespace {

/// pooling_mode_… of 1_Pooling/config.json, or its one pooling_mode: one of several modes, of which
/// heed has three.
Pooling pooling_of(const Json& config) {
  if (config.has("pooling_mode")) {
    const std::string mode = config.string("pooling_mode");
    check_data(mode == "mean" || mode == "cls" || mode == "max", config.file(),
               "pooling_mode '{}' is not supported; heed has mean, cls and max", mode);
    return pooling_from_name(mode);
  }
  constexpr std::string_view kPrefix = "pooling_mode_";
  std::vector<std::string> modes;
  config.for_each([&](const std::string& key, const Json& value) {
    if (key.starts_with(kPrefix) && value.is_boolean() && value.boolean()) {
      modes.push_back(key);
    }
  });
  if (modes.empty()) {
    modes.emplace_back("pooling_mode_mean_tokens");
  }
  check_data(modes.size() == 1, config.file(), "asks for {} at once; heed pools in one way",
             fmt::join(modes, " and "));
  if (modes.front() == "pooling_mode_cls_token") {
    return Pooling::cls;
  }
  if (modes.front() == "pooling_mode_max_tokens") {
    return Pooling::max;
  }
  check_data(modes.front() == "pooling_mode_mean_tokens", config.file(),
             "{} is not supported; heed has mean, cls and max", modes.front());
  return Pooling::mean;
}

}  // namespace

SentenceModules read_sentence_modules(const std::filesystem::path& folder) {
  constexpr int64_t kMost = int64_t{1} << 30;
  SentenceModules modules;
  if (std::filesystem::exists(folder / "sentence_bert_config.json")) {
    modules.max_length =
        Json::read(folder / "sentence_bert_config.json").integer_or("max_seq_length", 0, 1, kMost);
  }
  if (!std::filesystem::exists(folder / "modules.json")) {
    return modules;
  }
  modules.normalize = false;
  for (const Json& module : Json::read(folder / "modules.json").elements()) {
    const std::string type = module.string_or("type", "");
    const std::filesystem::path path = module.string_or("path", "");
    if (type.ends_with("Normalize")) {
      modules.normalize = true;
    } else if (type.ends_with("Pooling")) {
      check_data(path.is_relative() && path.native().find("..") == std::string::npos,
                 (folder / "modules.json").native(), "'{}' lies outside the folder", path.native());
      modules.pooling = pooling_of(Json::read(folder / path / "config.json"));
    } else {
      check_data(type.ends_with("Transformer"), (folder / "modules.json").native(),
                 "has a module '{}' that heed does not know", type);
    }
  }
  return modules;
}

void pool_rows(const float* rows, int64_t count, int64_t hidden, Pooling pooling, bool normalize,
               float* out) {
  std::vector<double> vector(static_cast<size_t>(hidden));
  const int64_t used = pooling == Pooling::cls ? 1 : count;
  for (int64_t d = 0; d < hidden; ++d) {
    double value = pooling == Pooling::max ? -std::numeric_limits<double>::infinity() : 0.0;
    for (int64_t t = 0; t < used; ++t) {
      const double each = rows[t * hidden + d];
      value = pooling == Pooling::max ? std::max(value, each)
                                      : value + each / static_cast<double>(used);
    }
    vector[static_cast<size_t>(d)] = value;
  }
  double norm = 0.0;
  for (const double x : vector) {
    norm += x * x;
  }
  const double scale = normalize && norm > 0.0 ? 1.0 / std::sqrt(norm) : 1.0;
  std::transform(vector.begin(), vector.end(), out,
                 [scale](double x) { return static_cast<float>(x * scale); });
}

}  // namespace heed
