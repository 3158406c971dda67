#pragma once

#include "heed/train.h"
#include "train/run_folder.h"
#include "train/task.h"

namespace heed {

/// Brings a run back to its last checkpoint on all ranks: model, optimizer, averages, loader and
/// `state`. Rank 0 reads it; the others get it from there. False where there is no checkpoint yet.
/// Throws where options or data are not those that the run began with.
bool restore_run(const RunFolder& folder, const TrainOptions& options, Task& task, Trainer& trainer,
                 RunState& state);

}  // namespace heed
