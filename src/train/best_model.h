#pragma once

#include <vector>

#include "dist/communicator.h"
#include "train/evaluate.h"
#include "train/run_folder.h"
#include "train/run_log.h"

namespace heed {

/// Evaluates a run's weights from time to time and keeps the best of them in the folder's model/.
class BestModel {
 public:
  BestModel(const TrainOptions& options, const Task& task, const RunFolder& folder, RunLog& log,
            RunState& state, Communicator& ranks)
      : options_(options), task_(task), folder_(folder), log_(log), state_(state), ranks_(ranks) {}

  /// Evaluates the model as it is after `state.step`, keeps it if it is the best so far, and saves
  /// what the tracked examples show.
  void evaluate_now();
  /// Whether `patience` evaluations in a row found nothing better.
  bool out_of_patience() const {
    return options_.patience > 0 && state_.stale >= options_.patience;
  }
  /// Writes the model folder.
  void save() const;
  /// Evaluates the model that was kept, over all texts where evaluations looked at some.
  void evaluate_kept(TrainResult& result);
  /// Of the last evaluation.
  std::vector<TrainSample> take_samples() { return std::move(samples_); }

 private:
  std::unique_ptr<Model> kept_everywhere() const;
  uint64_t sample_seed() const { return options_.seed + static_cast<uint64_t>(state_.step); }

  const TrainOptions& options_;
  const Task& task_;
  const RunFolder& folder_;
  RunLog& log_;
  RunState& state_;
  Communicator& ranks_;
  Evaluation best_;
  std::vector<TrainSample> samples_;
};

}  // namespace heed
