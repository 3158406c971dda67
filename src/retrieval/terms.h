#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed {

/// A search term and the bytes of the text it stands for.
struct Term {
  std::string text;
  TextSpan span;
};

/// The terms that lexical search knows of a text, in order. Words are runs of letters and digits of
/// one script, case-folded and without accents. A Hangul word comes as itself and as its syllable
/// bigrams, so that `역사` is found in `역사를`; Han characters and kana come as bigrams alone. A
/// bigram that is the whole word comes once.
std::vector<Term> terms_of(std::string_view text);

/// The same terms, separated by spaces: what the full-text index holds.
std::string term_text(std::string_view text);

}  // namespace heed
