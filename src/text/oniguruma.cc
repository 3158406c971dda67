#include "text/oniguruma.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/unicode_additions.h"

namespace heed::text {
namespace {

constexpr int kDeepest = 32;  ///< classes within classes

// Members of classes, without the brackets.
constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
const std::string& word_members() {
  static const std::string members =
      R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})" + added_characters({"L", "M", "Nd", "Nl", "Pc"});
  return members;
}
/// A \w outside of a class also counts Latin-1's numbers in.
constexpr std::string_view kLatinNumbers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHex = "0-9A-Fa-f";

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNamed = {{
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"blank", R"(\t\p{Zs})"},
    {"digit", R"(\p{Nd})"},
    {"lower", R"(\p{Lowercase})"},
    {"punct", R"(\p{P}\p{S})"},
    {"space", kSpace},
    {"upper", R"(\p{Uppercase})"},
}};

/// Scripts by their long names: PCRE2 takes them for script extensions, which hold more.
constexpr std::array kScripts = {
    "Arabic",    "Armenian", "Bengali",  "Bopomofo", "Cyrillic", "Devanagari", "Ethiopic",
    "Georgian",  "Greek",    "Gujarati", "Gurmukhi", "Han",      "Hangul",     "Hebrew",
    "Hiragana",  "Kannada",  "Katakana", "Khmer",    "Lao",      "Latin",      "Malayalam",
    "Mongolian", "Myanmar",  "Oriya",    "Sinhala",  "Syriac",   "Tamil",      "Telugu",
    "Thaana",    "Thai",     "Tibetan"};

/// A set of characters: members of one class, and expressions that match one character each.
struct Set {
  std::string members;
  std::vector<std::string> others;

  /// One character of the set.
  std::string one() const {
    if (others.empty()) {
      return "[" + members + "]";
    }
    std::string text = "(?:";
    for (const std::string& other : others) {
      text += (text.size() > 3 ? "|" : "") + other;
    }
    return text + (members.empty() ? ")" : "|[" + members + "])");
  }
  /// One character that is not in the set.
  std::string none() const {
    return others.empty() ? "[^" + members + "]" : "(?:(?!" + one() + ")(?s:.))";
  }
  bool empty() const { return members.empty() && others.empty(); }
};

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view file) : pattern_(pattern), file_(file) {}

  std::string run() {
    std::string out;
    while (at_ < pattern_.size()) {
      if (pattern_[at_] == '\\' && at_ + 1 < pattern_.size()) {
        out += outside_escape();
      } else if (pattern_[at_] == '[') {
        out += set_expression(0);
      } else {
        out += pattern_[at_++];
      }
    }
    return out;
  }

 private:
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  std::string outside_escape() {
    const char next = pattern_[at_ + 1];
    const std::string word = "[" + word_members() + std::string(kLatinNumbers) + "]";
    switch (next) {
      case 'b':
        return skip(2), "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
      case 'B':
        return skip(2), "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
      case 'w':
        return skip(2), word;
      case 'W':
        return skip(2), "[^" + word.substr(1);
      default:
        break;
    }
    Set set;
    if (shared_escape(set) || property_escape(set)) {
      return set.one();
    }
    return plain_escape();
  }

  /// Escapes with the same meaning in a class and outside.
  bool shared_escape(Set& set) {
    switch (pattern_[at_ + 1]) {
      case 's':
        set.members += kSpace;
        break;
      case 'S':
        set.members += kNoSpace;
        break;
      case 'h':
        set.members += kHex;
        break;
      case 'H':
        set.others.push_back("[^" + std::string(kHex) + "]");
        break;
      default:
        return false;
    }
    skip(2);
    return true;
  }

  /// \p{…} and \P{…}: scripts by the name that PCRE2 has for them, categories with the
  /// characters that it does not know.
  bool property_escape(Set& set) {
    const char next = pattern_[at_ + 1];
    const size_t end = pattern_.find('}', at_);
    if ((next != 'p' && next != 'P') || end == std::string_view::npos || !next_is_brace()) {
      return false;
    }
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^') != (next == 'P');
    name.remove_prefix(name.starts_with('^') ? 1 : 0);
    const bool is_script = std::find(kScripts.begin(), kScripts.end(), name) != kScripts.end();
    const std::string property = (is_script ? "sc:" : "") + std::string(name);
    const std::string added = added_characters(name);
    if (negated && !added.empty()) {
      set.others.push_back("[^\\p{" + property + "}" + added + "]");
    } else {
      set.members += (negated ? "\\P{" : "\\p{") + property + "}" + added;
    }
    skip(end + 1 - at_);
    return true;
  }

  /// An escape that PCRE2 reads as it stands, but for \uHHHH.
  std::string plain_escape() {
    const char next = pattern_[at_ + 1];
    constexpr size_t kDigits = 4;
    if (next == 'u' && at_ + 2 + kDigits <= pattern_.size()) {
      const std::string_view digits = pattern_.substr(at_ + 2, kDigits);
      skip(2 + kDigits);
      return "\\x{" + std::string(digits) + "}";
    }
    std::string whole(pattern_.substr(at_, 2));
    skip(2);
    return whole;
  }

  bool next_is_brace() const { return at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{'; }

  /// A class from its '[' on, as an expression for one character.
  std::string set_expression(int depth) {
    bool negated = false;
    const Set set = parse_set(depth, negated);
    return negated ? set.none() : set.one();
  }

  Set parse_set(int depth, bool& negated) {
    check_data(depth < kDeepest, file_, "pattern '{}' has too many classes within classes",
               pattern_);
    skip(1);
    negated = next_is("^");
    skip(negated ? 1 : 0);
    Set set;
    std::optional<std::string> before;  // what && cuts with
    if (next_is("]")) {
      set.members += "\\]";
      skip(1);
    }
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (next_is("&&")) {
        skip(2);
        before = cut(before, set);
        set = {};
      } else {
        member(set, depth);
      }
    }
    check_data(at_ < pattern_.size(), file_, "pattern '{}' does not compile: a class has no end",
               pattern_);
    skip(1);
    if (before) {
      set = Set{{}, {*cut(before, set)}};
    }
    return set;
  }

  static std::optional<std::string> cut(const std::optional<std::string>& before, const Set& set) {
    const std::string one = set.empty() ? "(?!)" : set.one();
    return before ? "(?:(?=" + *before + ")" + one + ")" : one;
  }

  /// One member of a class: a character, an escape, a name or a class of its own.
  void member(Set& set, int depth) {
    if (next_is("[:") && named(set)) {
      return;
    }
    if (next_is("[")) {
      bool negated = false;
      const Set inner = parse_set(depth + 1, negated);
      if (negated) {
        set.others.push_back(inner.none());
      } else {
        set.members += inner.members;
        set.others.insert(set.others.end(), inner.others.begin(), inner.others.end());
      }
      return;
    }
    if (pattern_[at_] != '\\' || at_ + 1 >= pattern_.size()) {
      set.members += pattern_[at_++];
      return;
    }
    const char next = pattern_[at_ + 1];
    if (next == 'w' || next == 'W') {
      if (next == 'w') {
        set.members += word_members();
      } else {
        set.others.push_back("[^" + word_members() + "]");
      }
      skip(2);
    } else if (!shared_escape(set) && !property_escape(set)) {
      set.members += plain_escape();
    }
  }

  bool named(Set& set) {
    const bool negated = next_is("[:^");
    const std::string_view rest = pattern_.substr(at_ + (negated ? 3 : 2));
    constexpr std::string_view kWordEnd = "word:]";
    if (rest.starts_with(kWordEnd)) {
      if (negated) {
        set.others.push_back("[^" + word_members() + "]");
      } else {
        set.members += word_members();
      }
      skip((negated ? 3 : 2) + kWordEnd.size());
      return true;
    }
    for (const auto& [name, members] : kNamed) {
      if (rest.starts_with(name) && rest.substr(name.size()).starts_with(":]")) {
        if (negated) {
          set.others.push_back("[^" + std::string(members) + "]");
        } else {
          set.members += members;
        }
        skip((negated ? 3 : 2) + name.size() + 2);
        return true;
      }
    }
    const size_t end = pattern_.find(":]", at_);
    if (end == std::string_view::npos) {
      return false;
    }
    set.members += pattern_.substr(at_, end + 2 - at_);  // one that both read alike
    skip(end + 2 - at_);
    return true;
  }

  void skip(size_t count) { at_ += count; }

  std::string_view pattern_;
  std::string_view file_;
  size_t at_ = 0;
};

}  // namespace

std::string from_oniguruma(std::string_view pattern, std::string_view file) {
  return Translator(pattern, file).run();
}

}  // namespace heed::text
