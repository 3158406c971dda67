#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "heed/io.h"
#include "heed/models.h"

namespace heed {

/// Where a model's configuration keeps what generation_config.json says.
inline constexpr const char* kGenerationKey = "generation_config";
inline constexpr const char* kGenerationFile = "generation_config.json";

/// What generation_config.json says, which errors about it name; nothing where a model has none.
std::optional<Json> generation_rules(const Json& config);

/// What is needed to build a model, wherever it comes from.
struct ModelFiles {
  /// config.json (made up for GGUF and llama2.c, and named after them), with
  /// generation_config.json inside.
  Json config;
  std::string weights_name;                 ///< in errors
  std::function<TensorMap()> tensors = {};  ///< reads the weights
  std::filesystem::path adapter = {};       ///< a folder in PEFT's format, to be added
  /// What the file calls a tensor, for errors; empty: as the checkpoint does.
  std::function<std::string(const std::string&)> stored_name = {};
};

/// Folder, run folder, .gguf, .bin, or the folder of an adapter, which names its model. `adapter`
/// (may be empty) is added to the model.
ModelFiles find_model_files(const std::filesystem::path& path,
                            const std::filesystem::path& adapter = {});

/// A model of `tensors`, which may have changed since files.tensors() gave them; `config` likewise.
std::unique_ptr<Model> build_model(const ModelFiles& files, const Json& config, TensorMap tensors,
                                   const LoadOptions& options);

}  // namespace heed
