#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"

namespace heed {

/// A cross-encoder: reads query and passage together and gives one score.
class Reranker {
 public:
  explicit Reranker(const std::string& model);
  /// One score per passage, higher is better: the logit of a model with one class, else the log of
  /// the odds of the last class (relevant) against the first.
  std::vector<double> score(std::string_view query, std::span<const std::string> passages) const;

 private:
  std::string path_;
  std::unique_ptr<Model> model_;
  Tokenizer tokenizer_;
  bool token_types_ = false;  // the model tells first and second text apart
};

}  // namespace heed
