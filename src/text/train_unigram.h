#pragma once

#include <span>
#include <string_view>

#include "heed/text.h"

namespace heed::text {

/// Trains a Unigram model with libsentencepiece and gives it as a tokenizer on heed's engine.
Tokenizer train_unigram(std::span<const std::string_view> texts, const TokenizerTraining& options);

}  // namespace heed::text
