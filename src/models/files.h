#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "heed/io.h"

namespace heed {

/// What is needed to build a model, wherever it comes from.
struct ModelFiles {
  std::string config;                  ///< text of config.json (made up for GGUF and llama2.c)
  std::string config_name;             ///< in errors
  std::string weights_name;            ///< in errors
  std::function<TensorMap()> tensors;  ///< reads the weights
};

/// Folder, run folder, .gguf or .bin.
ModelFiles find_model_files(const std::filesystem::path& path);

}  // namespace heed
