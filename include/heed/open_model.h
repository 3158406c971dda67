#pragma once

#include <filesystem>
#include <memory>

#include "heed/models.h"
#include "heed/text.h"

namespace heed {

struct OpenOptions {
  std::filesystem::path tokenizer =
      {};                           ///< a tokenizer file or folder, where none is with the model
  bool may_lack_tokenizer = false;  ///< a folder without a tokenizer is opened without one
  LoadOptions load = {};
};

/// A model and the tokenizer that belongs to it; a model of images has none.
struct LoadedModel {
  std::filesystem::path path;  ///< the model folder or file itself: a run folder's model/
  std::shared_ptr<const Model> model;
  Tokenizer tokenizer;
};

/// Finds a model by what a user would type: a model folder, a run folder, a .gguf or a llama2.c
/// .bin; else a name as on the Hugging Face hub ("openai-community/gpt2", "gpt2@main"), looked up
/// in the local Hugging Face cache. Throws `Error` with the command that downloads it.
HEED_API std::filesystem::path find_model(const std::filesystem::path& name);

/// Opens a model with its tokenizer. Throws `Error` where the tokenizer's ids do not fit the model.
HEED_API LoadedModel open_model(const std::filesystem::path& name, const OpenOptions& options = {});

}  // namespace heed
