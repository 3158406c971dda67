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
  std::shared_ptr<const Model> model;
  Tokenizer tokenizer;
};

/// Opens a model folder, run folder, .gguf or .bin; `tokenizer` (may be empty) overrides the one
/// that lies with it. Refuses a tokenizer whose ids do not fit the model's vocabulary.
Opened open_model(const std::string& path, const std::string& tokenizer,
                  const LoadOptions& load = {});

/// Whether a line has nothing but white space.
bool is_blank_line(const std::string& text);

/// Calls fn with every line of stdin, without its end (and without a byte order mark).
void for_each_line(const std::function<void(const std::string&)>& fn);

/// "1.87 MiB": units of 1,024.
std::string size_text(double bytes);

/// Thrown where the reader of stdout has gone away: there is nobody left to work for.
struct ReaderGone {};

/// Writes to stdout; an Error where that fails.
void print(std::string_view text);
/// The same, and flushes: for streaming.
void print_now(std::string_view text);

}  // namespace heed::app
