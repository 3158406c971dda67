#pragma once

#include "heed/text.h"
#include "io/gguf.h"

namespace heed::text {

/// Adds a tokenizer to a GGUF file: whole, as tokenizer.json, and as the tokenizer.ggml.* keys that
/// llama.cpp reads. `rows` of the model's embedding; ids that no token has are filled up.
void add_vocabulary(GgufWriter& writer, const Tokenizer& tokenizer, int64_t rows);

}  // namespace heed::text
