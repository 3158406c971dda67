#pragma once

#include <string>
#include <vector>

#include "heed/text.h"

namespace heed::text {

/// The bytes that each token adds to a text in the middle of it; empty for special tokens, which
/// are no text, and for ids that no token has. A token may hold part of a character.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace heed::text
