#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/regex.h"

namespace heed::text {

/// The "pattern" field of tokenizer.json: {"String": …} or {"Regex": …}.
class Pattern {
 public:
  explicit Pattern(const Json& json);
  void find_all(std::string_view text, std::vector<Piece>& matches) const;

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

}  // namespace heed::text
