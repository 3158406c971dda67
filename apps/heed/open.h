#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

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
Opened open_model(const std::string& path, const std::string& tokenizer);

/// Calls fn with every line of stdin, without its end.
void for_each_line(const std::function<void(const std::string&)>& fn);

/// Writes to stdout; an Error where it is closed.
void print(std::string_view text);
/// The same, and flushes: for streaming.
void print_now(std::string_view text);

}  // namespace heed::app
