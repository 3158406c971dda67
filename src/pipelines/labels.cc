#include "pipelines/labels.h"

#include <algorithm>
#include <cmath>

#include "pipelines/batches.h"

namespace heed {

Labels::Labels(const Model& model, int64_t count) {
  const Json& config = model.config();
  const std::optional<Json> labels = config.find("id2label");
  for (int64_t i = 0; i < count; ++i) {
    const std::string id = std::to_string(i);
    const std::optional<Json> name =
        labels && labels->is_object() ? labels->find(id) : std::nullopt;
    names_.push_back(name && name->is_string() ? name->string() : "LABEL_" + id);
  }
  const std::string problem = config.string_or("problem_type", "");
  if (problem == "regression") {
    function_ = Function::none;
  } else if (problem == "multi_label_classification" || count == 1) {
    function_ = Function::sigmoid;
  }
}

std::vector<LabelScore> Labels::scores(const float* logits, int64_t top_k) const {
  std::vector<LabelScore> all;
  const auto count = static_cast<int64_t>(names_.size());
  const double most = *std::max_element(logits, logits + count);
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = logits[i];
    const double score = function_ == Function::softmax   ? std::exp(value - most)
                         : function_ == Function::sigmoid ? 1.0 / (1.0 + std::exp(-value))
                                                          : value;
    sum += score;
    all.push_back({name(i), score, i});
  }
  for (LabelScore& each : all) {
    each.score /= function_ == Function::softmax ? sum : 1.0;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const LabelScore& a, const LabelScore& b) { return a.score > b.score; });
  if (top_k > 0 && top_k < count) {
    all.resize(static_cast<size_t>(top_k));
  }
  return all;
}

}  // namespace heed
