#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/tensor.h"
#include "heed/text.h"

namespace heed {

/// Texts as a padded batch.
struct PaddedTexts {
  Tensor input_ids;       ///< i64 [texts, longest]
  Tensor attention_mask;  ///< i64, 1 = real
  std::vector<int64_t> lengths;
};

/// Encodes texts, each cut to `max_tokens` (0: whole), with the tokens that the tokenizer puts
/// around them.
PaddedTexts encode_texts(const Tokenizer& tokenizer, std::span<const std::string> texts,
                         int64_t max_tokens);

}  // namespace heed
