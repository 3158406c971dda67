#pragma once

#include <string>
#include <vector>

namespace heed::app {

/// Pairs "source-target" of each target token and its strongest source token.
std::string hard_alignment(const std::vector<std::vector<double>>& soft);
/// Rows as "w,w,w", separated by spaces.
std::string alignment_text(const std::vector<std::vector<double>>& soft);

}  // namespace heed::app
