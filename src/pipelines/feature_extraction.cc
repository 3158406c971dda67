#include <algorithm>

#include "base/check.h"
#include "base/language.h"
#include "heed/models.h"
#include "heed/tensor.h"
#include "pipelines/batches.h"
#include "pipelines/sentence_modules.h"

namespace heed {
namespace {

constexpr std::string_view kNeeds = say("an encoder");

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

FeatureExtraction::FeatureExtraction(LoadedModel model) : ModelPipeline(std::move(model)) {
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
    const SentenceModules modules = read_sentence_modules(loaded_.path);
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
        pool_rows(pooled.data<float>() + static_cast<int64_t>(i) * pooled.size(1), 1,
                  pooled.size(1), Pooling::cls, normalize, out(i));
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
      pool_rows(rows.data<float>() + encoded.layout.start(sequence) * hidden,
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
