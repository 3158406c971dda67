#pragma once

#include <cstdint>
#include <string>

namespace heed {

/// One look at a run in progress.
struct Progress {
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0.0;
  double validation = 0.0;  ///< the last one's loss; 0: none yet
  double norm = 0.0;        ///< of the gradient
  double lr = 0.0;
  double seconds = 0.0;            ///< of the last step
  double tokens_per_second = 0.0;  ///< of the last step; 0: its examples have none
  double examples_per_second = 0.0;
  // Of several ranks: how long their gradients were under way, and waited for.
  double sum_seconds = 0.0;
  double sum_wait_seconds = 0.0;
};

/// `step 120/5000 | loss 2.31 | val 2.40 | norm 0.8 | lr 3.0e-4 | 41 ms | 12.4k tok/s | ETA 3m20s`
std::string format_progress(const Progress& progress, double remaining_seconds);

/// Shows progress on stderr: one line that is rewritten on a terminal, a plain line every few
/// seconds elsewhere, nothing where `quiet`.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  void show(const Progress& progress);
  /// Ends the line on a terminal.
  void finish();

 private:
  bool quiet_;
  bool terminal_;
  bool open_ = false;
  double started_ = 0.0;
  int64_t first_ = -1;  ///< the step before the first one shown: a resumed run's ETA counts from it
  double last_shown_ = -1.0;
};

}  // namespace heed
