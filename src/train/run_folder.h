#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "heed/data.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "train/ema.h"

namespace heed {

/// Where a run is, beside weights and moments.
struct RunState {
  int64_t step = 0;
  double loss = 0.0;        ///< of the last step whose loss was finite
  double best = 0.0;        ///< validation loss of the best evaluation; 0: none yet
  double best_score = 0.0;  ///< of the best evaluation
  int64_t best_step = 0;    ///< 0: none yet
  int64_t stale = 0;        ///< evaluations since then
  LossScale loss_scale;
  RandomState random;
  LoaderState loader;
  int64_t ranks = 1;    ///< that made the last step
  std::string options;  ///< as TOML: a resumed run must have the same
};

/// As JSON, and back.
std::string state_to_text(const RunState& state);
RunState state_from_text(const std::string& text);

/// The folder of a run. Only one process at a time may hold it.
class RunFolder {
 public:
  /// Makes the folder (or opens it, to resume) and proves that it can be written.
  /// Without `writes` (ranks above 0) nothing is touched and nothing written.
  RunFolder(const std::filesystem::path& path, bool resume, bool writes = true);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  bool writes() const { return writes_; }
  /// Adds a line to a file of JSON lines in the folder.
  void add_line(const char* name, const std::string& json) const;
  /// Drops the lines of steps after `step` (what a broken run did beyond its last checkpoint) and
  /// those of the end.
  void cut_lines(const char* name, int64_t step) const;
  /// Writes checkpoints/step-NNNNNN in one step, then removes all but the last `keep` up to it.
  void save(const Model& model, const TensorMap& moments, const Ema& ema, const RunState& state,
            int64_t keep) const;
  /// The newest checkpoint whose checksums hold, into all of these (`moments` takes the optimizer's
  /// state); warns of broken ones, and throws where there are no others. `accept` throws where the
  /// run must not go on from such a state. Nothing where there is no checkpoint yet.
  std::optional<RunState> restore(const Model& model,
                                  const std::function<void(const RunState&)>& accept,
                                  const std::function<void(const TensorMap&)>& moments,
                                  Ema& ema) const;

 private:
  std::filesystem::path path_;
  bool writes_ = true;
  int lock_ = -1;
};

}  // namespace heed
