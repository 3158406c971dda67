#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "heed/autograd.h"
#include "heed/models.h"
#include "pipelines/batches.h"

namespace heed {
namespace {

constexpr std::string_view kNeeds = "an encoder";

/// What sentence-transformers wrote beside a model.
struct SentenceModules {
  Pooling pooling = Pooling::mean;
  bool normalize = true;
  int64_t max_length = 0;
};

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

SentenceModules read_modules(const std::filesystem::path& folder) {
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

/// One vector from rows [count, hidden] of a text's tokens. Sums run in double, in order.
void pool(const float* rows, int64_t count, int64_t hidden, Pooling pooling, bool normalize,
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

}  // namespace

Pooling pooling_from_name(std::string_view name) {
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::max, Pooling::pooler}) {
    if (name == name_of(pooling)) {
      return pooling;
    }
  }
  fail(ErrorKind::usage, "pooling", "there is no '{}'; use mean, cls, max or pooler", name);
}

std::string_view name_of(Pooling pooling) {
  switch (pooling) {
    case Pooling::cls:
      return "cls";
    case Pooling::max:
      return "max";
    case Pooling::pooler:
      return "pooler";
    case Pooling::mean:
      break;
  }
  return "mean";
}

FeatureExtraction::FeatureExtraction(const std::filesystem::path& model, const OpenOptions& options)
    : FeatureExtraction(open_model(model, options)) {}

FeatureExtraction::FeatureExtraction(LoadedModel model) : loaded_(std::move(model)) {
  const ModelKind kind = loaded_.model->kind();
  check_suits(kind == ModelKind::encoder || kind == ModelKind::encoder_decoder, kTask, kNeeds,
              loaded_);
  max_length_ = max_input_length(loaded_);
  if (model_spec(*loaded_.model).pooler_is_embedding) {
    pooling_ = Pooling::pooler;
    normalize_ = false;
    return;
  }
  if (std::filesystem::is_directory(loaded_.path)) {
    const SentenceModules modules = read_modules(loaded_.path);
    pooling_ = modules.pooling;
    normalize_ = modules.normalize;
    if (modules.max_length > 0) {
      // As in sentence-transformers, it stands above what tokenizer.json says.
      const int64_t context = loaded_.model->context_length();
      max_length_ = context == 0 ? modules.max_length : std::min(context, modules.max_length);
    }
  }
}

Tensor FeatureExtraction::operator()(std::string_view text, const FeatureOptions& options) const {
  return (*this)(std::vector<std::string>{std::string(text)}, options)[0];
}

Tensor FeatureExtraction::operator()(const std::vector<std::string>& texts,
                                     const FeatureOptions& options) const {
  const NoGrad no_grad;
  const Pooling pooling = options.pooling.value_or(pooling_);
  const bool normalize = options.normalize.value_or(normalize_);
  const TokenBatch tokens = encode_inputs(loaded_, texts, kTask,
                                          options.max_length > 0 ? options.max_length : max_length_,
                                          options.truncate, options.run);
  const auto count = static_cast<int64_t>(texts.size());
  Tensor features = Tensor::zeros({count, dimension(pooling)});
  for_each_batch(lengths_of(tokens), kTask, options.run, [&](const std::vector<size_t>& together) {
    const ModelInput input = padded_input(tokens, together);
    const auto out = [&](size_t i) {
      return features.data<float>() + static_cast<int64_t>(together[i]) * features.size(1);
    };
    if (pooling == Pooling::pooler) {
      const Tensor pooled = loaded_.model->forward(input).pooler_output.to(DType::f32).contiguous();
      for (size_t i = 0; i < together.size(); ++i) {
        pool(pooled.data<float>() + static_cast<int64_t>(i) * pooled.size(1), 1, pooled.size(1),
             Pooling::cls, normalize, out(i));
      }
      return;
    }
    const EncoderOutput encoded = loaded_.model->encode(input);
    const Tensor rows = encoded.rows.to(DType::f32).contiguous();
    const int64_t hidden = rows.size(1);
    check(hidden == features.size(1), kTask, "rows {} of a model of hidden size {}", rows.shape(),
          features.size(1));
    for (size_t i = 0; i < together.size(); ++i) {
      const auto sequence = static_cast<int64_t>(i);
      pool(rows.data<float>() + encoded.layout.start(sequence) * hidden,
           encoded.layout.length_of(sequence), hidden, pooling, normalize, out(i));
    }
  });
  return features;
}

int64_t FeatureExtraction::dimension(Pooling pooling) const {
  if (pooling != Pooling::pooler) {
    return loaded_.model->hidden_size();
  }
  const NoGrad no_grad;  // a projection may change the size
  ModelInput input;
  input.input_ids = Tensor::zeros({1, 1}, DType::i64);
  const Tensor pooled = loaded_.model->forward(input).pooler_output;
  if (!pooled.defined()) {
    fail(ErrorKind::usage, loaded_.path.native(), "has no pooler; choose another pooling");
  }
  return pooled.size(1);
}

}  // namespace heed
