#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace heed::text {

/// How a byte-level tokenizer of a GGUF file splits a text before merging.
struct GgufPreTokenizer {
  nlohmann::json steps;        ///< a pre_tokenizer of tokenizer.json; null: GPT-2's own
  bool ignore_merges = false;  ///< a word that is a token is not merged from its bytes
  bool add_bos = false;        ///< what holds where the file has no add_bos_token
};

/// By llama.cpp's name for it (`tokenizer.ggml.pre`); an error that names `file` where it is not
/// known.
GgufPreTokenizer gguf_pretokenizer(const std::string& name, const std::string& file);

}  // namespace heed::text
