#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/command.h"
#include "heed/train.h"

namespace heed::app {

struct EvalOptions {
  std::string model, tokenizer, adapter, task, importance;
  std::string data;  ///< a labelled file, or a text
  int64_t context = 0, stride = 0, batch = 32, beams = 0;
  uint64_t seed = 0;
};

/// What an evaluation found.
struct EvalReport {
  std::string task;
  std::vector<std::pair<std::string, double>> metrics;  ///< by their names in JSON, first the main
  int64_t examples = 0;
  std::string unit = "examples";
  std::vector<std::string> labels;
  ClassScores classes;
};

/// The tasks, by the names of `heed train`. Each reads the data and runs the model with progress on
/// stderr.
EvalReport eval_text(const EvalOptions& options, const Common& common);
EvalReport eval_masked(const EvalOptions& options, const Common& common);
EvalReport eval_classify(const EvalOptions& options, const Common& common);
EvalReport eval_image_classify(const EvalOptions& options, const Common& common);
EvalReport eval_translate(const EvalOptions& options, const Common& common);
EvalReport eval_caption(const EvalOptions& options, const Common& common);
EvalReport eval_regress(const EvalOptions& options, const Common& common);

}  // namespace heed::app
