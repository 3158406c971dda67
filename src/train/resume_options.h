#pragma once

#include <string>

#include "heed/train.h"

namespace heed {

/// As TOML, what a resumed run must have in common with its beginning. It may go on with other
/// ranks, in a folder that was moved, and keep other things next to the weights.
std::string options_that_must_match(TrainOptions options);

/// Throws where the run that wrote `before` had other options, and names them.
void check_same_run(const std::string& before, const TrainOptions& now);

}  // namespace heed
