#pragma once

#include "heed/train.h"

namespace heed {

/// Throws kind usage where `best_by` names no metric of the task.
void check_best_by(const TrainOptions& options);

}  // namespace heed
