#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "heed/io.h"

namespace heed {

/// Where a model's configuration keeps what generation_config.json says.
inline constexpr const char* kGenerationKey = "generation_config";
inline constexpr const char* kGenerationFile = "generation_config.json";

/// What is needed to build a model, wherever it comes from.
struct ModelFiles {
  /// Text of config.json (made up for GGUF and llama2.c), with generation_config.json inside.
  std::string config;
  std::string config_name;             ///< in errors
  std::string weights_name;            ///< in errors
  std::function<TensorMap()> tensors;  ///< reads the weights
};

/// Folder, run folder, .gguf or .bin.
ModelFiles find_model_files(const std::filesystem::path& path);

}  // namespace heed
