#include "heed/alignment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace heed::app {

std::string hard_alignment(const std::vector<std::vector<double>>& soft) {
  std::string text;
  for (size_t q = 0; q < soft.size(); ++q) {
    const auto best = std::max_element(soft[q].begin(), soft[q].end()) - soft[q].begin();
    text += fmt::format("{}{}-{}", q == 0 ? "" : " ", best, q);
  }
  return text;
}

std::string alignment_text(const std::vector<std::vector<double>>& soft) {
  std::string text;
  for (size_t q = 0; q < soft.size(); ++q) {
    text += fmt::format("{}{:.4f}", q == 0 ? "" : " ", fmt::join(soft[q], ","));
  }
  return text;
}

}  // namespace heed::app
