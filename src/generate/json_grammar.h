#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/grammar_rules.h"

namespace heed {

/// The parts of JSON as expressions of a grammar. Space between tokens is optional and bounded: a
/// text made of nothing but space would never end.
class JsonGrammar {
 public:
  explicit JsonGrammar(GrammarBuilder& builder) : builder_(builder) {}

  static constexpr size_t kLongestKey = 512;  // each character is a level of the grammar

  GrammarNodePtr value();   ///< any JSON value
  GrammarNodePtr object();  ///< any JSON object
  GrammarNodePtr array();
  /// A string of `least` to `most` characters; most -1: any number.
  GrammarNodePtr string(int64_t least = 0, int64_t most = -1);
  /// A string with this inside, where characters are escaped already.
  static GrammarNodePtr quoted(GrammarNodePtr inside);
  /// One character of a string, with escapes.
  GrammarNodePtr character();
  /// One of these characters, as a string writes it.
  static GrammarNodePtr character_of(const CharRanges& chars);
  /// Keys other than `names`, with the quotes. None of them may have more than kLongestKey bytes.
  static GrammarNodePtr other_key(const std::vector<std::string>& names);
  static GrammarNodePtr number();
  static GrammarNodePtr integer();
  /// Whole numbers from low to high.
  static GrammarNodePtr integer_between(int64_t low, int64_t high);
  GrammarNodePtr space();
  /// `{`, members separated by commas, `}`: from "key": value pairs.
  GrammarNodePtr between(char open, GrammarNodePtr inside, char close);
  GrammarNodePtr comma();
  GrammarNodePtr member(GrammarNodePtr key, GrammarNodePtr value);

 private:
  GrammarNodePtr once(std::optional<uint32_t>& rule, const char* title, const GrammarNodePtr& node);

  GrammarBuilder& builder_;
  std::optional<uint32_t> value_, object_, array_, character_, space_, number_, string_;
};

}  // namespace heed
