#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "heed/data.h"
#include "heed/models.h"
#include "heed/optim.h"
#include "heed/precision.h"
#include "heed/random.h"
#include "train/ema.h"

namespace heed {

/// Where a run is, beside weights and moments.
struct RunState {
  int64_t step = 0;
  double best = 0.0;        ///< validation loss of the best evaluation; 0: none yet
  double best_score = 0.0;  ///< of the best evaluation
  int64_t best_step = 0;    ///< 0: none yet
  int64_t stale = 0;        ///< evaluations since then
  LossScale loss_scale;
  RandomState random;
  LoaderState loader;
  std::string options;  ///< as TOML: a resumed run must have the same
};

/// The folder of a run. Only one process at a time may hold it.
class RunFolder {
 public:
  /// Makes the folder (or opens it, to resume) and proves that it can be written.
  RunFolder(const std::filesystem::path& path, bool resume);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Adds a line to a file of JSON lines in the folder.
  void add_line(const char* name, const std::string& json) const;
  /// Drops the lines of steps after `step` (what a broken run did beyond its last checkpoint) and
  /// those of the end.
  void cut_lines(const char* name, int64_t step) const;
  /// Writes checkpoints/step-NNNNNN in one step, then removes all but the last `keep`.
  void save(const Model& model, const Optimizer& optimizer, const Ema& ema, const RunState& state,
            int64_t keep) const;
  /// The newest checkpoint whose checksums hold, into all of these; warns of broken ones.
  std::optional<RunState> restore(const Model& model, Optimizer& optimizer, Ema& ema) const;

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace heed
