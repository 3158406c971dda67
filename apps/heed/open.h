#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"

namespace heed::app {

/// A model and the tokenizer that belongs to it.
struct Opened {
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;
};

/// Opens a model folder, run folder, .gguf or .bin; `tokenizer` (may be empty) overrides the one
/// that lies with it. Refuses a tokenizer whose ids do not fit the model's vocabulary.
Opened open_model(const std::string& path, const std::string& tokenizer,
                  const LoadOptions& load = {});

/// Throws kind usage where a command has been given a model that is for another one.
void check_suits(bool suits, std::string_view command, const Model& model,
                 std::string_view use_instead);

/// Texts as one padded batch, with the tokens the model expects around them; padding is not
/// computed.
struct TextBatch {
  ModelInput input;
  std::vector<int64_t> lengths;  ///< tokens of each text
};
TextBatch encode_texts(const Opened& opened, const std::vector<std::string>& texts);

/// Calls fn with the texts, or else with the lines of stdin, at most `batch` at a time, in order.
void for_each_batch(const std::vector<std::string>& texts, int64_t batch,
                    const std::function<void(const std::vector<std::string>&)>& fn);

/// Calls fn with every line of stdin, without its end (and without a byte order mark).
void for_each_line(const std::function<void(const std::string&)>& fn);

/// Thrown where the reader of stdout has gone away: there is nobody left to work for.
struct ReaderGone {};

/// Writes to stdout; an Error where that fails.
void print(std::string_view text);
/// The same, and flushes: for streaming.
void print_now(std::string_view text);

}  // namespace heed::app
