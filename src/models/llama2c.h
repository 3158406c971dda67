#pragma once

#include "models/files.h"

namespace heed {

/// llama2.c's legacy checkpoint (.bin): seven whole numbers and the weights in f32, as a Hugging
/// Face Llama.
ModelFiles llama2c_files(const std::filesystem::path& path);

}  // namespace heed
