#pragma once

#include <string>
#include <vector>

#include "heed/options.h"
#include "heed/pipelines.h"

namespace heed::app {

/// The options of commands that generate text, as they are typed.
struct TextOptions {
  Sampling sampling;
  std::vector<std::string> stops, breakers, logit_bias;
  std::vector<int64_t> stop_tokens;
  bool ignore_eos = false;
  std::string grammar, json_schema;
  std::string draft;
  bool lookup = false;
};

/// Adds sampling, penalties, what ends a text, and grammars.
void add_text_options(OptionTable& table, TextOptions& options);

/// What a pipeline takes. Errors name the option.
GenerationOptions generation_options(const TextOptions& options, const Tokenizer& tokenizer);

/// --kv-type of commands that generate.
void add_kv_type(OptionTable& table, std::string& value);

/// --kv-window and --sinks of commands that generate with a decoder.
void add_kv_window(OptionTable& table, KvWindow& window);

/// --early-stopping of commands that search with beams.
void add_early_stopping(OptionTable& table, std::string& value);

}  // namespace heed::app
