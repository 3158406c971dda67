#pragma once

#include "models/files.h"

namespace heed {

/// llama2.c's checkpoints (.bin) of versions 0 and 1 (f32) and 2 (8 bits with one scale per group,
/// as f32 from then on), as a Hugging Face Llama. docs/formats/llama2c.md.
ModelFiles llama2c_files(const std::filesystem::path& path);

}  // namespace heed
