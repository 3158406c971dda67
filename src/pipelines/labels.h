#pragma once

#include <string>
#include <vector>

#include "heed/pipelines.h"

namespace heed {

/// What the outputs of a classifier mean, from config.json.
class Labels {
 public:
  /// `count` outputs, named by id2label or LABEL_N.
  Labels(const Model& model, int64_t count);

  const std::string& name(int64_t id) const { return names_[static_cast<size_t>(id)]; }
  /// Scores of one row of logits, best first, at most `top_k` of them (0: all).
  std::vector<LabelScore> scores(const float* logits, int64_t top_k) const;

 private:
  enum class Function { softmax, sigmoid, none };
  std::vector<std::string> names_;
  Function function_ = Function::softmax;
};

}  // namespace heed
