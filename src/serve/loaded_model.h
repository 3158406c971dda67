#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "heed/generate.h"
#include "heed/models.h"
#include "heed/pipelines.h"
#include "heed/text.h"
#include "serve/chat_bridge.h"

namespace heed::serve {

/// What a model can be asked for.
struct Abilities {
  bool generate = false;        ///< continues text
  bool translate = false;       ///< text to text
  bool embed = false;           ///< a vector for a text
  bool classify = false;        ///< labels for a text
  bool fill_mask = false;       ///< words for a mask
  bool classify_image = false;  ///< labels for an image
  bool caption = false;         ///< a text for an image
  bool transcribe = false;      ///< a text for speech

  /// Hugging Face's names of the tasks.
  std::vector<std::string> tasks() const;
};

/// A model in memory with everything its requests need. Shared: it lives as long as a request uses
/// it, whatever happens to its name meanwhile.
struct LoadedModel {
  std::string name;
  std::filesystem::path path;
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;  ///< empty for a model that only reads images
  GenerationTokens ids;
  Abilities abilities;
  std::vector<std::string> labels;  ///< of a classifier
  bool multi_label = false;         ///< its labels do not exclude each other
  Pooling pooling = Pooling::mean;  ///< what an embedding is made of
  std::optional<ChatTemplate> chat_template;
  std::time_t loaded_at = 0;
  /// The bytes of the tokenizer's tokens, for grammars; made when it is first asked for.
  const TokenTable& token_table() const;

  int64_t context_limit = 0;  ///< most tokens of a sequence; 0: the model's own
  int64_t context_length() const {
    const int64_t own = model->context_length();
    return own == 0 || (context_limit > 0 && context_limit < own) ? context_limit : own;
  }

 private:
  mutable std::once_flag table_made_;
  mutable std::optional<TokenTable> table_;
};
using LoadedModelPtr = std::shared_ptr<const LoadedModel>;

/// Opens a model folder, run folder, .gguf or .bin; `tokenizer` (may be empty) overrides the one
/// that lies with it. Throws Error, before anything is read where the weights exceed the memory
/// that this process may use.
LoadedModelPtr open_served_model(const std::string& name, const std::filesystem::path& path,
                                 const std::filesystem::path& tokenizer, DType kv_type = DType::f32,
                                 const std::filesystem::path& adapter = {},
                                 int64_t context_limit = 0);

/// The name that a path is served under: the folder's or file's own, without an extension; for a
/// run folder's model/ the run's.
std::string served_name(const std::filesystem::path& path);

}  // namespace heed::serve
