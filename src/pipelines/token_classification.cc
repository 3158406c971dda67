#include "base/check.h"
#include "base/language.h"
#include "heed/tensor.h"
#include "pipelines/batches.h"
#include "pipelines/labels.h"

namespace heed {
namespace {

constexpr std::string_view kNeeds = say("an encoder with a token-classification head");

/// "PER" of "B-PER", and whether a new entity begins there.
struct Entity {
  std::string_view name;
  bool begins;
};
Entity entity_of(std::string_view label) {
  const bool tagged = label.starts_with("B-") || label.starts_with("I-");
  return {tagged ? label.substr(2) : label, label.starts_with("B-")};
}

/// Neighbouring tokens of one entity as one span each, with the mean of their scores.
std::vector<LabelledSpan> aggregated(const std::vector<LabelledSpan>& tokens,
                                     std::string_view text) {
  std::vector<LabelledSpan> spans;
  int64_t count = 0;  // tokens of the last span
  int64_t last_position = -1;
  for (const LabelledSpan& token : tokens) {
    const Entity entity = entity_of(token.label);
    if (entity.name == "O") {
      continue;
    }
    const bool continues = !spans.empty() && !entity.begins && spans.back().label == entity.name &&
                           token.position == last_position + 1;
    last_position = token.position;
    if (!continues) {
      spans.push_back(token);
      spans.back().label = entity.name;
      count = 1;
      continue;
    }
    LabelledSpan& span = spans.back();
    span.score += (token.score - span.score) / static_cast<double>(++count);
    span.span.end = token.span.end;
  }
  for (LabelledSpan& span : spans) {
    const auto begin = static_cast<size_t>(span.span.begin);
    span.text = text.substr(begin, static_cast<size_t>(span.span.end) - begin);
  }
  return spans;
}

}  // namespace

TokenClassification::TokenClassification(LoadedModel model) : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::encoder, kTask, kNeeds, loaded_);
}

std::vector<LabelledSpan> TokenClassification::operator()(
    std::string_view text, const TokenClassificationOptions& options) const {
  return std::move((*this)(std::vector<std::string>{std::string(text)}, options).front());
}

std::vector<std::vector<LabelledSpan>> TokenClassification::operator()(
    const std::vector<std::string>& texts, const TokenClassificationOptions& options) const {
  const NoGrad no_grad;
  std::vector<std::vector<LabelledSpan>> results(texts.size());
  const TokenBatch tokens = encode_inputs(loaded_, texts, kTask, max_input_length(loaded_),
                                          options.truncate, options.run);
  for_each_batch(lengths_of(tokens), kTask, options.run, [&](const std::vector<size_t>& together) {
    const Tensor logits = loaded_.model->forward(padded_input(tokens, together)).logits;
    check_suits(
        logits.defined() && logits.rank() == 3 && logits.size(2) != loaded_.model->vocab_size(),
        kTask, kNeeds, loaded_);
    const Labels labels(*loaded_.model, logits.size(2));
    const Tensor rows = logits.to(DType::f32).contiguous();
    for (size_t i = 0; i < together.size(); ++i) {
      const std::string& text = texts[together[i]];
      const auto& ids = tokens.ids[together[i]];
      const Encoding encoding = loaded_.tokenizer.encode(text, true);
      std::vector<LabelledSpan> found;
      // A truncated text keeps its first tokens; offsets of the others are not read.
      for (size_t t = 0; t < ids.size() && t < encoding.ids.size(); ++t) {
        if (encoding.special_tokens_mask[t] != 0 || ids[t] != encoding.ids[t]) {
          continue;
        }
        const int64_t row = static_cast<int64_t>(i) * rows.size(1) + static_cast<int64_t>(t);
        const LabelScore best = labels.scores(rows.data<float>() + row * rows.size(2), 1).front();
        found.push_back({best.label, best.score, encoding.tokens[t], encoding.offsets[t],
                         static_cast<int64_t>(t)});
      }
      results[together[i]] = options.aggregate ? aggregated(found, text) : std::move(found);
    }
  });
  return results;
}

}  // namespace heed
