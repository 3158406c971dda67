// Regular expressions of JSON schemas' `pattern`.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "generate/json_schema.h"
#include "text/unicode.h"

namespace heed {
namespace {

constexpr int kDeepest = 64;

const CharRanges kDigits{{'0', '9'}};
const CharRanges kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// Of ASCII only: what else is a digit or a letter differs between validators.
const CharRanges kNoDigits{{' ', '/'}, {':', '~'}};
const CharRanges kNoWord{{' ', '/'}, {':', '@'}, {'[', '^'}, {'`', '`'}, {'{', '~'}};
const CharRanges kSpaces{{' ', ' '}, {'\t', '\t'}, {'\n', '\n'}, {'\r', '\r'}};

class PatternParser {
 public:
  PatternParser(const std::string& pattern, JsonGrammar& json) : text_(pattern), json_(json) {}

  GrammarNodePtr parse() {
    const bool anchored = take('^');
    GrammarNodePtr inner = choice(0);
    const bool closed = take('$');
    if (at_ < text_.size()) {
      refuse_schema(fmt::format("'{}' is not supported here", text_.substr(at_)));
    }
    // An unanchored pattern may stand anywhere in the string.
    const auto anything = [&] { return repeat_node(json_.character(), 0, -1); };
    std::vector<GrammarNodePtr> parts;
    if (!anchored) {
      parts.push_back(anything());
    }
    parts.push_back(std::move(inner));
    if (!closed) {
      parts.push_back(anything());
    }
    if ((anchored || closed) && alternatives_ > 0) {
      refuse_schema("^ and $ beside | at the outermost level are not supported; use (…)");
    }
    return sequence_node(std::move(parts));
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    const bool there = at_ < text_.size() && text_[at_] == c;
    at_ += there ? 1 : 0;
    return there;
  }

  GrammarNodePtr choice(int depth) {
    if (depth > kDeepest) {
      refuse_schema("parentheses are nested too deeply");
    }
    std::vector<GrammarNodePtr> parts{sequence(depth)};
    while (take('|')) {
      alternatives_ += depth == 0 ? 1 : 0;
      parts.push_back(sequence(depth));
    }
    return parts.size() == 1 ? parts.front() : choice_node(std::move(parts));
  }

  GrammarNodePtr sequence(int depth) {
    std::vector<GrammarNodePtr> parts;
    while (at_ < text_.size() && peek() != '|' && peek() != ')' && peek() != '$') {
      GrammarNodePtr part = item(depth);
      repeat(part);
      parts.push_back(std::move(part));
    }
    return sequence_node(std::move(parts));
  }

  GrammarNodePtr item(int depth) {
    if (take('(')) {
      if (take('?') && !take(':')) {
        refuse_schema("groups that begin with (? are not supported, but for (?:");
      }
      GrammarNodePtr inner = choice(depth + 1);
      if (!take(')')) {
        refuse_schema("a parenthesis is not closed");
      }
      return inner;
    }
    if (take('[')) {
      return char_class();
    }
    if (take('.')) {
      return JsonGrammar::character_of(
          other_chars_node({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})->chars);
    }
    if (take('\\')) {
      return JsonGrammar::character_of(escape());
    }
    const char c = peek();
    if (std::string_view("*+?{^").find(c) != std::string_view::npos) {
      refuse_schema(fmt::format("'{}' is not expected here", c));
    }
    const uint32_t code = character();
    return JsonGrammar::character_of({{code, code}});
  }

  uint32_t character() {
    const text::CodePoint point = text::decode_one(text_.data() + at_, text_.data() + text_.size());
    at_ += point.length;
    return point.code;
  }

  /// Behind a backslash.
  CharRanges escape() {
    const uint32_t code = at_ < text_.size() ? character() : '\0';
    switch (code) {
      case 'd':
        return kDigits;
      case 'w':
        return kWord;
      case 's':
        return kSpaces;
      case 'D':
        return kNoDigits;
      case 'W':
        return kNoWord;
      case 'S':
        return {{'!', '~'}};
      case 'n':
        return {{'\n', '\n'}};
      case 't':
        return {{'\t', '\t'}};
      case 'r':
        return {{'\r', '\r'}};
      default:
        break;
    }
    if (code == 0 || (code < 0x80 && std::isalnum(static_cast<int>(code)) != 0)) {
      refuse_schema("this escape with a backslash is not supported");
    }
    return {{code, code}};
  }

  GrammarNodePtr char_class() {
    const bool others = take('^');
    CharRanges chars;
    while (!take(']')) {
      if (at_ >= text_.size()) {
        refuse_schema("a class has no closing ]");
      }
      const CharRanges low = class_member();
      if (low.size() == 1 && low[0].first == low[0].second && peek() == '-' &&
          at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const CharRanges high = class_member();
        if (high.size() != 1 || high[0].first < low[0].first) {
          refuse_schema("a range of a class ends before it begins");
        }
        chars.emplace_back(low[0].first, high[0].first);
      } else {
        chars.insert(chars.end(), low.begin(), low.end());
      }
    }
    return JsonGrammar::character_of(others ? other_chars_node(chars)->chars
                                            : chars_node(chars)->chars);
  }
  CharRanges class_member() {
    if (take('\\')) {
      return escape();
    }
    const uint32_t code = character();
    return {{code, code}};
  }

  void repeat(GrammarNodePtr& part) {
    if (take('*')) {
      part = repeat_node(part, 0, -1);
    } else if (take('+')) {
      part = repeat_node(part, 1, -1);
    } else if (take('?')) {
      part = repeat_node(part, 0, 1);
    } else if (take('{')) {
      const std::optional<int64_t> least = number();
      std::optional<int64_t> most = least;
      if (take(',')) {
        most = number();
      }
      if (!take('}') || !least || (most && *most < *least)) {
        refuse_schema(fmt::format("{{n}}, {{n,}} or {{n,m}} is expected"));
      }
      part = repeat_node(part, *least, most.value_or(-1));
    } else {
      return;
    }
    take('?');  // a lazy repetition matches the same texts
  }
  std::optional<int64_t> number() {
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) {
      return std::nullopt;
    }
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  const std::string& text_;
  JsonGrammar& json_;
  size_t at_ = 0;
  int alternatives_ = 0;  // | outside of parentheses
};

}  // namespace

GrammarNodePtr pattern_node(const std::string& pattern, JsonGrammar& json) {
  return PatternParser(pattern, json).parse();
}

}  // namespace heed
