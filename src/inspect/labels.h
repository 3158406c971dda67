#pragma once

#include "heed/text.h"

namespace heed {

/// Whether token `i` is the "▁" that SentencePiece puts before a text: it stands for no space of
/// the text and shares its offset with the token behind it.
bool is_added_space(const Encoding& encoding, size_t i);

}  // namespace heed
