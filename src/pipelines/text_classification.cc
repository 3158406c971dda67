#include "base/check.h"
#include "base/language.h"
#include "heed/tensor.h"
#include "pipelines/batches.h"
#include "pipelines/labels.h"

namespace heed {
namespace {

constexpr std::string_view kNeeds = say("an encoder with a classification head");

}  // namespace

TextClassification::TextClassification(LoadedModel model) : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::encoder, kTask, kNeeds, loaded_);
}

std::vector<LabelScore> TextClassification::operator()(std::string_view text,
                                                       const ClassificationOptions& options) const {
  return std::move((*this)(std::vector<std::string>{std::string(text)}, options).front());
}

std::vector<std::vector<LabelScore>> TextClassification::operator()(
    const std::vector<std::string>& texts, const ClassificationOptions& options) const {
  const NoGrad no_grad;
  std::vector<std::vector<LabelScore>> results(texts.size());
  const TokenBatch tokens = encode_inputs(loaded_, texts, kTask, max_input_length(loaded_),
                                          options.truncate, options.run);
  for_each_batch(lengths_of(tokens), kTask, options.run, [&](const std::vector<size_t>& together) {
    const Tensor logits = loaded_.model->forward(padded_input(tokens, together)).logits;
    check_suits(logits.defined() && logits.rank() == 2, kTask, kNeeds, loaded_);
    const Labels labels(*loaded_.model, logits.size(1));
    const Tensor rows = logits.to(DType::f32).contiguous();
    for (size_t i = 0; i < together.size(); ++i) {
      results[together[i]] =
          labels.scores(rows.data<float>() + static_cast<int64_t>(i) * rows.size(1), options.top_k);
    }
  });
  return results;
}

}  // namespace heed
