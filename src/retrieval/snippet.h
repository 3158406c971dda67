#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed {

/// The parts of `text` whose terms are among `wanted`, joined where they touch, in order.
std::vector<TextSpan> find_matches(std::string_view text, const std::set<std::string>& wanted);

/// The part of `text` of about `bytes` bytes that holds most of the matches, from and to the edges
/// of words; the beginning where there is no match.
TextSpan snippet_of(std::string_view text, const std::vector<TextSpan>& matches,
                    int64_t bytes = 320);

}  // namespace heed
