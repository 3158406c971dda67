#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/language.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "pipelines/batches.h"
#include "pipelines/image_input.h"

namespace heed {
namespace {

constexpr std::string_view kTask = ZeroShotImageClassification::kTask;
constexpr std::string_view kNeeds = say("a model that compares images with texts");

/// Whether every pair is scored by itself, as the model's own parameters show (SigLIP's bias).
bool scores_pairs_alone(const Model& model) {
  const auto& all = model.parameters();
  return std::any_of(all.begin(), all.end(),
                     [](const Parameter& each) { return each.name == "logit_bias"; });
}

std::vector<std::string> hypotheses(const ZeroShotOptions& options) {
  constexpr std::string_view kPlace = "{}";
  check(!options.labels.empty(), kTask, "there are no labels to choose from");
  const size_t at = options.hypothesis_template.find(kPlace);
  check(at != std::string::npos, kTask, "the template has no {{}} for a label");
  std::vector<std::string> texts;
  for (const std::string& label : options.labels) {
    std::string text = options.hypothesis_template;
    texts.push_back(text.replace(at, kPlace.size(), label));
  }
  return texts;
}

/// The texts as the model was trained to read them: CLIP with the padding masked, SigLIP filled up
/// to its whole context, without a mask.
ModelInput text_input(const LoadedModel& loaded, const std::vector<std::string>& texts,
                      const RunOptions& run) {
  const int64_t most = max_input_length(loaded);
  const TokenBatch batch = encode_inputs(loaded, texts, kTask, most, true, run);
  std::vector<size_t> all;
  for (size_t i = 0; i < texts.size(); ++i) {
    check(!batch.ids[i].empty(), kTask, "label {} has no tokens", i);
    all.push_back(i);
  }
  ModelInput input = padded_input(batch, all);
  if (scores_pairs_alone(*loaded.model)) {
    const int64_t padding = loaded.tokenizer.special().pad.value_or(1);
    const auto rows = static_cast<int64_t>(texts.size());
    Tensor ids = Tensor::full({rows, loaded.model->context_length()}, static_cast<double>(padding),
                              DType::i64);
    for (int64_t row = 0; row < rows; ++row) {
      const auto& own = batch.ids[static_cast<size_t>(row)];
      std::copy(own.begin(), own.end(), ids.data<int64_t>() + row * ids.size(1));
    }
    input = ModelInput();
    input.input_ids = ids;
  }
  return input;
}

/// Softmax or sigmoid of one image's logits, best first.
std::vector<LabelScore> scores_of(const float* logits, const std::vector<std::string>& labels,
                                  bool alone, int64_t top_k) {
  const size_t count = labels.size();
  const double top = *std::max_element(logits, logits + count);
  double sum = 0.0;
  for (size_t i = 0; i < count; ++i) {
    sum += std::exp(logits[i] - top);
  }
  std::vector<LabelScore> scores;
  for (size_t i = 0; i < count; ++i) {
    const double score = alone ? 1.0 / (1.0 + std::exp(-static_cast<double>(logits[i])))
                               : std::exp(logits[i] - top) / sum;
    scores.push_back({.label = labels[i], .score = score, .id = static_cast<int64_t>(i)});
  }
  std::stable_sort(scores.begin(), scores.end(),
                   [](const LabelScore& a, const LabelScore& b) { return a.score > b.score; });
  if (top_k > 0 && static_cast<size_t>(top_k) < count) {
    scores.resize(static_cast<size_t>(top_k));
  }
  return scores;
}

}  // namespace

ZeroShotImageClassification::ZeroShotImageClassification(LoadedModel model)
    : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::image_text, kTask, kNeeds, loaded_);
}

std::vector<LabelScore> ZeroShotImageClassification::operator()(
    const std::filesystem::path& image, const ZeroShotOptions& options) const {
  return std::move((*this)(std::vector<std::filesystem::path>{image}, options).front());
}

std::vector<std::vector<LabelScore>> ZeroShotImageClassification::operator()(
    const std::vector<std::filesystem::path>& images, const ZeroShotOptions& options) const {
  const NoGrad no_grad;
  const VisionConfig vision = vision_config(loaded_.model->config());
  const bool alone = scores_pairs_alone(*loaded_.model);
  const ModelInput texts = text_input(loaded_, hypotheses(options), options.run);
  std::vector<std::vector<LabelScore>> results(images.size());
  const std::vector<int64_t> lengths(images.size(), 1);
  for_each_batch(lengths, kTask, options.run, [&](const std::vector<size_t>& together) {
    const ReadableImages readable =
        read_images(vision, loaded_.path, images, together, options.run);
    if (readable.inputs.empty()) {
      return;
    }
    ModelInput input = texts;
    input.pixel_values = readable.pixels;
    const Tensor logits = loaded_.model->forward(input).logits_per_image.to(DType::f32);
    for (size_t row = 0; row < readable.inputs.size(); ++row) {
      const float* own = logits.data<float>() + static_cast<int64_t>(row) * logits.size(1);
      results[readable.inputs[row]] = scores_of(own, options.labels, alone, options.top_k);
    }
  });
  return results;
}

}  // namespace heed
