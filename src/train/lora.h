#pragma once

#include <filesystem>
#include <string>

#include "heed/models.h"
#include "heed/train.h"

namespace heed {

/// What `--lora rank=16,alpha=32,targets=attention` says. Throws kind usage for anything else.
LoraOptions parse_lora(const std::string& text);

/// Throws kind usage where --lora cannot go with the other options.
void check_lora(const TrainOptions& options);

/// Writes what a run has trained: the model, or its adapter in PEFT's format.
void save_trained(const Model& model, const std::filesystem::path& folder,
                  const TrainOptions& options);
/// The tensors that save_trained() wrote, by name.
TensorMap load_trained(const Model& model, const std::filesystem::path& folder);
/// Gives the trained parameters these values.
void set_trained(const Model& model, const TensorMap& tensors);

}  // namespace heed
