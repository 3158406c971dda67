#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/text.h"

namespace heed {

struct GrammarRules;

/// The texts that a model may write: a context-free grammar over bytes. A cheap handle.
class HEED_API Grammar {
 public:
  /// From GBNF, the notation of llama.cpp: rules "name ::= …" with literals, character classes, any
  /// character, groups, alternatives and repetitions; the text is what `root` derives. `name`
  /// stands for the grammar in errors. Left recursion is an error.
  static Grammar from_gbnf(std::string_view text, std::string_view name = "grammar");
  /// JSON texts that a JSON Schema accepts. A keyword that is not supported is an error that names
  /// it and where it stands; docs/formats/grammar.md lists them.
  static Grammar from_json_schema(std::string_view schema, std::string_view name = "JSON schema");
  /// Any JSON object.
  static Grammar json_object();

  /// Whether the grammar derives the text.
  bool matches(std::string_view text) const;
  /// Whether some text that begins like this is derived.
  bool matches_prefix(std::string_view text) const;

  const GrammarRules& rules() const { return *rules_; }
  explicit Grammar(std::shared_ptr<const GrammarRules> rules) : rules_(std::move(rules)) {}

 private:
  std::shared_ptr<const GrammarRules> rules_;
};

class TokenTrie;

/// The bytes of all tokens of a tokenizer, as a trie. Building one takes a few milliseconds per
/// 10,000 tokens; it serves any number of grammars. A cheap handle.
class HEED_API TokenTable {
 public:
  explicit TokenTable(const Tokenizer& tokenizer);
  const TokenTrie& trie() const { return *trie_; }

 private:
  std::shared_ptr<const TokenTrie> trie_;
};

/// Follows one text through a grammar and says which tokens may come next.
class HEED_API TokenMatcher {
 public:
  TokenMatcher(const Grammar& grammar, const TokenTable& tokens);
  ~TokenMatcher();
  TokenMatcher(TokenMatcher&&) noexcept;
  TokenMatcher& operator=(TokenMatcher&&) noexcept;

  /// Whether this token may come next; not asked of end tokens.
  bool allows(TokenId id) const;
  /// Whether the text may end here.
  bool may_end() const;
  /// Sets the logits of tokens that may not come next to -infinity, those of `end` unless the text
  /// may end here. False where none is left.
  bool mask(std::span<float> logits, std::span<const TokenId> end);
  /// Goes on with a token that is allowed; false, and no change, for any other.
  bool accept(TokenId id);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A grammar for a tokenizer's tokens: what a Request takes.
class HEED_API TokenConstraint {
 public:
  TokenConstraint(Grammar grammar, TokenTable tokens)
      : grammar_(std::move(grammar)), tokens_(std::move(tokens)) {}
  TokenMatcher matcher() const { return {grammar_, tokens_}; }

 private:
  Grammar grammar_;
  TokenTable tokens_;
};

}  // namespace heed
