// GBNF: llama.cpp's notation for grammars.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/check.h"
#include "generate/grammar_rules.h"
#include "heed/generate.h"
#include "text/unicode.h"

namespace heed {
namespace {

constexpr int kDeepest = 256;  // parentheses and repetitions within each other

class GbnfParser {
 public:
  GbnfParser(std::string_view text, std::string name)
      : text_(text), name_(std::move(name)), builder_(name_) {}

  GrammarRules parse() {
    for (skip_space(true); at_ < text_.size(); skip_space(true)) {
      parse_rule();
    }
    for (const auto& [rule, use] : used_) {
      refuse_if(!use.defined, use.at, fmt::format("there is no rule '{}'", rule));
    }
    const auto root = used_.find("root");
    check_data(root != used_.end(), name_, "has no rule 'root', which a text must follow");
    return builder_.build(root->second.rule);
  }

 private:
  struct Use {
    uint32_t rule;
    size_t at;  // first mention
    bool defined;
  };

  [[noreturn]] void refuse(size_t at, const std::string& what) const {
    int64_t line = 1;
    for (size_t i = 0; i < at; ++i) {
      line += text_[i] == '\n' ? 1 : 0;
    }
    fail(ErrorKind::data, name_, "line {}: {}", line, what);
  }
  void refuse_if(bool wrong, size_t at, const std::string& what) const {
    if (wrong) {
      refuse(at, what);
    }
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    const bool there = at_ < text_.size() && text_[at_] == c;
    at_ += there ? 1 : 0;
    return there;
  }

  /// Spaces and comments; line ends, too, where a rule may go on behind them.
  void skip_space(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c != ' ' && c != '\t' && c != '\r' && !(lines && c == '\n')) {
        return;
      }
    }
  }

  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  }
  std::string parse_name() {
    const size_t begin = at_;
    while (is_name(peek())) {
      ++at_;
    }
    refuse_if(at_ == begin, at_,
              at_ < text_.size() ? fmt::format("the name of a rule is expected, not '{}'", peek())
                                 : "the name of a rule is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  Use& rule_of(const std::string& name, size_t at) {
    const auto known = used_.find(name);
    return known != used_.end()
               ? known->second
               : used_.emplace(name, Use{builder_.declare(name), at, false}).first->second;
  }

  void parse_rule() {
    const size_t begin = at_;
    const std::string name = parse_name();
    skip_space(false);
    refuse_if(text_.substr(at_, 3) != "::=", at_,
              fmt::format("'::=' is expected behind '{}'", name));
    at_ += 3;
    skip_space(true);
    Use& use = rule_of(name, begin);
    refuse_if(use.defined, begin, fmt::format("'{}' is defined twice", name));
    use.defined = true;
    const uint32_t rule = use.rule;
    builder_.define(rule, parse_choice(0));
    refuse_if(at_ < text_.size() && peek() != '\n', at_,
              fmt::format("'{}' is not expected here", peek()));
  }

  GrammarNodePtr parse_choice(int depth) {
    refuse_if(depth > kDeepest, at_, "parentheses are nested too deeply");
    std::vector<GrammarNodePtr> parts{parse_sequence(depth)};
    for (;;) {
      const size_t before = at_;
      skip_space(true);
      if (!take('|')) {
        at_ = before;  // a line end may end the rule
        break;
      }
      skip_space(true);
      parts.push_back(parse_sequence(depth));
    }
    return parts.size() == 1 ? parts.front() : choice_node(std::move(parts));
  }

  GrammarNodePtr parse_sequence(int depth) {
    std::vector<GrammarNodePtr> parts;
    for (;; skip_space(depth > 0)) {
      GrammarNodePtr part = parse_item(depth);
      if (part == nullptr) {
        break;
      }
      while (repeated(part)) {
        refuse_if(part->depth > 2 * kDeepest, at_, "repetitions are nested too deeply");
      }
      parts.push_back(std::move(part));
    }
    return parts.size() == 1 ? parts.front() : sequence_node(std::move(parts));
  }

  /// One element without repetitions; null where the sequence ends.
  GrammarNodePtr parse_item(int depth) {
    const size_t begin = at_;
    if (take('"')) {
      std::string literal;
      while (!take('"')) {
        refuse_if(at_ >= text_.size(), begin, "the literal has no closing \"");
        text::append_code(literal, parse_char());
      }
      return literal_node(std::move(literal));
    }
    if (take('[')) {
      return parse_class(begin);
    }
    if (take('.')) {
      return other_chars_node({});
    }
    if (take('(')) {
      skip_space(true);
      GrammarNodePtr inner = parse_choice(depth + 1);
      skip_space(true);
      refuse_if(!take(')'), begin, "the parenthesis is not closed");
      return inner;
    }
    return is_name(peek()) ? rule_node(rule_of(parse_name(), begin).rule) : nullptr;
  }

  GrammarNodePtr parse_class(size_t begin) {
    const bool others = take('^');
    CharRanges chars;
    while (!take(']')) {
      refuse_if(at_ >= text_.size(), begin, "the class has no closing ]");
      const uint32_t low = parse_char();
      uint32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        high = parse_char();
        refuse_if(high < low, begin, "a range of the class ends before it begins");
      }
      chars.emplace_back(low, high);
    }
    GrammarNodePtr node =
        others ? other_chars_node(std::move(chars)) : chars_node(std::move(chars));
    refuse_if(node->chars.empty(), begin, "the class holds no character");
    return node;
  }

  /// One character of a literal or a class, escapes resolved.
  uint32_t parse_char() {
    const size_t begin = at_;
    if (!take('\\')) {
      const text::CodePoint point =
          text::decode_one(text_.data() + at_, text_.data() + text_.size());
      refuse_if(!point.valid, begin, "the text is not UTF-8");
      at_ += point.length;
      return point.code;
    }
    refuse_if(at_ >= text_.size(), begin, "\\ stands at the end");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(c);
      default:
        refuse(begin, fmt::format("\\{} is no escape; \\n \\r \\t \\\" \\\\ \\[ \\] \\- \\^ "
                                  "\\xNN \\uNNNN \\UNNNNNNNN are",
                                  c));
    }
  }

  uint32_t parse_hex(size_t digits) {
    const std::string_view hex = text_.substr(at_, digits);
    uint32_t code = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    refuse_if(hex.size() != digits || error != std::errc() || end != hex.data() + digits ||
                  code > kLastCodePoint || (code >= 0xD800 && code < 0xE000),
              at_, fmt::format("'{}' is no code point of {} hexadecimal digits", hex, digits));
    at_ += digits;
    return code;
  }

  /// Wraps `part` in the repetition that follows it; false where none does.
  bool repeated(GrammarNodePtr& part) {
    const size_t begin = at_;
    if (take('*')) {
      part = repeat_node(part, 0, -1);
    } else if (take('+')) {
      part = repeat_node(part, 1, -1);
    } else if (take('?')) {
      part = repeat_node(part, 0, 1);
    } else if (take('{')) {
      const std::optional<int64_t> least = parse_number();
      std::optional<int64_t> most = least;
      skip_space(false);
      const bool range = take(',');
      if (range) {
        most = parse_number();
        skip_space(false);
      }
      refuse_if(!take('}') || !least || (most && *most < *least), begin,
                fmt::format("{{n}}, {{n,}} or {{n,m}} is expected"));
      part = repeat_node(part, *least, most.value_or(-1));
    } else {
      return false;
    }
    return true;
  }

  std::optional<int64_t> parse_number() {
    skip_space(false);
    int64_t number = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error != std::errc() || number < 0) {
      return std::nullopt;
    }
    at_ = static_cast<size_t>(end - text_.data());
    return number;
  }

  std::string_view text_;
  std::string name_;
  GrammarBuilder builder_;
  size_t at_ = 0;
  std::map<std::string, Use> used_;
};

}  // namespace

Grammar Grammar::from_gbnf(std::string_view text, std::string_view name) {
  return Grammar(std::make_shared<GrammarRules>(GbnfParser(text, std::string(name)).parse()));
}

}  // namespace heed
