#pragma once

#include <filesystem>

#include "train/task.h"

namespace heed {

/// Attention of the first `probes` validation examples (training examples where there are none), as
/// the model has it now: docs/formats/run-folder.md.
void save_snapshot(const Model& model, const Task& task, const TrainOptions& options, int64_t step,
                   const std::filesystem::path& file);

}  // namespace heed
