#pragma once

#include <memory>

#include "train/evaluate.h"
#include "train/event_file.h"
#include "train/progress_line.h"
#include "train/run_folder.h"

namespace heed {

/// What a run leaves behind while it goes on: metrics.jsonl, samples.jsonl, TensorBoard's events,
/// and lines on stderr.
class RunLog {
 public:
  RunLog(const RunFolder& folder, bool quiet) : folder_(folder), quiet_(quiet), line_(quiet) {}
  /// Opens the event file; `step` is the last one that was done.
  void open(int64_t step);
  void step(const TrainProgress& progress);
  /// `best_by`: the metric by which this model is the best so far, the loss where the metric of the
  /// run is as good as before; empty where it is not the best. `final`: the best model, over all of
  /// the set.
  void evaluation(int64_t step, const Evaluation& evaluation, const std::string& best_by,
                  bool final);
  void samples(int64_t step, const std::vector<TrainSample>& samples);
  /// A line of its own.
  void say(const std::string& text);
  /// Several lines that end with a line break; nothing for an empty text.
  void report(const std::string& text);
  void finish() { line_.finish(); }

 private:
  const RunFolder& folder_;
  bool quiet_;
  ProgressLine line_;
  std::unique_ptr<EventFile> events_;
  double validation_ = 0.0;
};

}  // namespace heed
