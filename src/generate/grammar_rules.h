#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed {

/// One step of an alternative: a byte within a range, or whatever a rule derives.
struct GrammarSymbol {
  enum class Kind : uint8_t { end, bytes, rule };
  Kind kind = Kind::end;
  uint8_t low = 0, high = 0;  ///< of bytes, inclusive
  uint32_t rule = 0;
};

/// A grammar ready to be followed: every rule is a list of alternatives, and an alternative the
/// position of its first symbol; an `end` symbol closes it. Free of left recursion, and every rule
/// that is used derives some text.
struct GrammarRules {
  std::string name;  ///< in messages
  std::vector<GrammarSymbol> symbols;
  std::vector<std::vector<uint32_t>> rules;
  uint32_t root = 0;
};

struct GrammarNode;
using GrammarNodePtr = std::shared_ptr<const GrammarNode>;
/// Code points [first, second].
using CharRanges = std::vector<std::pair<uint32_t, uint32_t>>;

/// An expression of a grammar as it is written.
struct GrammarNode {
  enum class Kind { literal, chars, rule, sequence, choice, repeat };
  Kind kind = Kind::sequence;
  std::string text = {};  ///< of a literal: bytes
  CharRanges chars = {};
  uint32_t rule = 0;
  std::vector<GrammarNodePtr> parts = {};
  int64_t least = 0, most = 0;  ///< of a repetition; most -1: any number
  int depth = 0;                ///< of the parts within each other; set by the functions below
};

/// Expressions within each other. A grammar comes from anywhere, and whoever walks through it or
/// frees it goes as deep. The functions below throw `Error` of kind data for one that is deeper.
inline constexpr int kDeepestNode = 2048;

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

GrammarNodePtr literal_node(std::string text);
GrammarNodePtr chars_node(CharRanges chars);
/// All code points but these.
GrammarNodePtr other_chars_node(CharRanges chars);
GrammarNodePtr rule_node(uint32_t rule);
GrammarNodePtr sequence_node(std::vector<GrammarNodePtr> parts);
GrammarNodePtr choice_node(std::vector<GrammarNodePtr> parts);
GrammarNodePtr repeat_node(GrammarNodePtr part, int64_t least, int64_t most);
inline GrammarNodePtr optional_node(GrammarNodePtr part) {
  return repeat_node(std::move(part), 0, 1);
}

/// Turns expressions into rules.
class GrammarBuilder {
 public:
  explicit GrammarBuilder(std::string name) { rules_.name = std::move(name); }

  /// A rule to be defined later; `title` is its name in messages.
  uint32_t declare(std::string title);
  void define(uint32_t rule, const GrammarNodePtr& node);
  /// Checks and finishes. Throws `Error` of kind data for left recursion, and where `root` derives
  /// no text at all.
  GrammarRules build(uint32_t root);

 private:
  void emit(const GrammarNodePtr& node, std::vector<GrammarSymbol>& out);
  void emit_chars(const CharRanges& chars, std::vector<GrammarSymbol>& out);
  void emit_repeat(const GrammarNode& node, std::vector<GrammarSymbol>& out);
  void add_alternative(uint32_t rule, std::vector<GrammarSymbol> symbols);
  struct Call {
    uint32_t rule;
    bool last;  // nothing follows
  };
  std::vector<bool> rules_that_hold(bool bytes) const;
  std::vector<std::vector<Call>> first_calls() const;
  void remove_barren();
  void check_left_recursion() const;

  GrammarRules rules_;
  std::vector<std::string> titles_;
  std::map<CharRanges, uint32_t> classes_;
};

}  // namespace heed
