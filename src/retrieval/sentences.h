#pragma once

#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed {

/// The sentences of a text, as byte ranges without the white space around them, in order. A
/// sentence ends at `.`, `!`, `?`, `…` and their full-width forms (with closing quotes and brackets
/// after them), at a blank line, and at a line end after a Korean sentence ending (`다`, `요`,
/// `까`, `죠`, …). A period after an abbreviation or an initial, inside a number or before a
/// lower-case word ends nothing.
std::vector<TextSpan> split_sentences(std::string_view text);

}  // namespace heed
