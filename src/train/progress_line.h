#pragma once

#include <cstdint>
#include <string>

#include "heed/train.h"

namespace heed {

/// `step 120/5000 | loss 2.31 | val 2.40 | norm 0.8 | lr 3.0e-4 | 41 ms | 12.4k tok/s | ETA 3m20s`
std::string format_progress(const TrainProgress& progress, double remaining_seconds);

/// Shows progress on stderr: one line that is rewritten on a terminal, a plain line every few
/// seconds elsewhere, nothing where `quiet`.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  void show(const TrainProgress& progress);
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
