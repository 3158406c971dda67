#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/train.h"
#include "train/task.h"

namespace heed {

/// What one evaluation found.
struct Evaluation {
  double loss = 0.0;
  std::vector<std::pair<std::string, double>> metrics;  ///< "val_bleu" and its value
  std::vector<TrainSample> samples;
  ClassScores classes;  ///< where the task has classes
  int64_t tokens = 0;
  double seconds = 0.0;

  /// Which of two evaluations of a task is the better one: the larger. It is the metric of
  /// `best_by`, or minus it where smaller is better.
  double score = 0.0;
};

/// Evaluates the model on the validation set; texts are generated for its first `most_texts`
/// examples (0: all). The same model and set give the same result to the bit.
Evaluation evaluate(const Model& model, const Task& task, const TrainOptions& options,
                    int64_t most_texts, uint64_t seed);

/// A few examples, of the validation set or else of the training set.
std::vector<TrainSample> make_samples(const Model& model, const Task& task,
                                      const TrainOptions& options, uint64_t seed);

}  // namespace heed
