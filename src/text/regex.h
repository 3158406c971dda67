#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned.h"

namespace heed::text {

/// A regular expression (PCRE2, Unicode) with bounded work: a pattern that backtracks without end
/// gives an error.
class Regex {
 public:
  /// `file` names the source of the pattern in errors.
  Regex(std::string_view pattern, std::string_view file);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Appends all matches in `text`, left to right; empty ones are left out. Invalid UTF-8 matches
  /// nothing.
  void find_all(std::string_view text, std::vector<Piece>& matches) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Quotes a literal string as a pattern.
std::string quote_regex(std::string_view literal);

}  // namespace heed::text
