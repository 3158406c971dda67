#include "generate/json_grammar.h"

#include <algorithm>
#include <set>
#include <span>

#include "generate/grammar_rules.h"
#include "heed/generate.h"
#include "text/unicode.h"

namespace heed {
namespace {

constexpr int64_t kMostDigits = 15;    // so that a double holds every whole number
constexpr int64_t kMostFraction = 16;  // digits behind the point
constexpr int64_t kMostIndent = 20;    // spaces at the beginning of a line

GrammarNodePtr text_node(std::string text) { return literal_node(std::move(text)); }
GrammarNodePtr digit_node(char low = '0', char high = '9') {
  return chars_node({{static_cast<uint32_t>(low), static_cast<uint32_t>(high)}});
}
GrammarNodePtr digits_node(int64_t least, int64_t most) {
  return repeat_node(digit_node(), least, most);
}
GrammarNodePtr minus_node() { return optional_node(text_node("-")); }

/// \uXXXX: code points of the first plane but the surrogates, and pairs of these.
GrammarNodePtr unicode_escape() {
  const GrammarNodePtr hex = chars_node({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
  const GrammarNodePtr no_d =
      chars_node({{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}});
  const GrammarNodePtr d = chars_node({{'d', 'd'}, {'D', 'D'}});
  const GrammarNodePtr plain =
      choice_node({sequence_node({no_d, repeat_node(hex, 3, 3)}),
                   sequence_node({d, chars_node({{'0', '7'}}), repeat_node(hex, 2, 2)})});
  const GrammarNodePtr high =
      sequence_node({d, chars_node({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), repeat_node(hex, 2, 2)});
  const GrammarNodePtr low =
      sequence_node({d, chars_node({{'c', 'f'}, {'C', 'F'}}), repeat_node(hex, 2, 2)});
  return sequence_node(
      {text_node("u"), choice_node({plain, sequence_node({high, text_node("\\u"), low})})});
}

/// The whole numbers with as many digits as `low` and `high` have, between them. Both have the same
/// number of digits; leading zeros are allowed.
GrammarNodePtr digits_between(const std::string& low, const std::string& high) {
  if (low == high) {
    return text_node(low);
  }
  const auto rest = static_cast<int64_t>(low.size()) - 1;
  if (rest == 0) {
    return digit_node(low[0], high[0]);
  }
  const auto any = [&] { return digits_node(rest, rest); };
  const std::string nines(static_cast<size_t>(rest), '9');
  const std::string zeros(static_cast<size_t>(rest), '0');
  if (low[0] == high[0]) {
    return sequence_node(
        {text_node(low.substr(0, 1)), digits_between(low.substr(1), high.substr(1))});
  }
  std::vector<GrammarNodePtr> choices;
  char first = low[0];
  char last = high[0];
  if (low.substr(1) != zeros) {
    choices.push_back(
        sequence_node({text_node(std::string(1, first)), digits_between(low.substr(1), nines)}));
    ++first;
  }
  if (high.substr(1) != nines) {
    choices.push_back(
        sequence_node({text_node(std::string(1, last)), digits_between(zeros, high.substr(1))}));
    --last;
  }
  if (first <= last) {
    choices.push_back(sequence_node({digit_node(first, last), any()}));
  }
  return choice_node(std::move(choices));
}

/// 0 <= low <= high.
void add_natural(uint64_t low, uint64_t high, const std::string& sign,
                 std::vector<GrammarNodePtr>& choices) {
  while (low <= high) {
    const std::string first = std::to_string(low);
    const std::string nines(first.size(), '9');
    const uint64_t last = std::min<uint64_t>(high, std::stoull(nines));
    choices.push_back(
        sequence_node({text_node(sign), digits_between(first, std::to_string(last))}));
    low = last + 1;
  }
}

/// Strings of characters that need no escape and are none of `names`; the names are sorted and have
/// the first `depth` bytes in common, which are written already.
GrammarNodePtr other_than(std::span<const std::string> names, size_t depth) {
  const GrammarNodePtr plain = other_chars_node({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  std::vector<GrammarNodePtr> choices;
  CharRanges excluded{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  bool ends_here = false;
  for (size_t i = 0; i < names.size();) {
    if (names[i].size() == depth) {
      ends_here = true;
      ++i;
      continue;
    }
    const text::CodePoint next =
        text::decode_one(names[i].data() + depth, names[i].data() + names[i].size());
    const std::string head = names[i].substr(depth, next.length);
    const size_t begin = i;
    while (i < names.size() && names[i].compare(depth, next.length, head) == 0) {
      ++i;
    }
    excluded.emplace_back(next.code, next.code);
    choices.push_back(sequence_node(
        {text_node(head), other_than(names.subspan(begin, i - begin), depth + next.length)}));
  }
  choices.push_back(sequence_node({other_chars_node(excluded), repeat_node(plain, 0, -1)}));
  if (!ends_here) {
    choices.push_back(text_node(""));
  }
  return choice_node(std::move(choices));
}

}  // namespace

GrammarNodePtr JsonGrammar::once(std::optional<uint32_t>& rule, const char* title,
                                 const GrammarNodePtr& node) {
  if (!rule) {
    rule = builder_.declare(title);
    builder_.define(*rule, node);
  }
  return rule_node(*rule);
}

GrammarNodePtr JsonGrammar::space() {
  return once(
      space_, "space",
      choice_node({text_node(""), text_node(" "),
                   sequence_node({text_node("\n"), repeat_node(text_node(" "), 0, kMostIndent)})}));
}

GrammarNodePtr JsonGrammar::comma() { return sequence_node({text_node(","), space()}); }

GrammarNodePtr JsonGrammar::between(char open, GrammarNodePtr inside, char close) {
  return sequence_node({text_node(std::string(1, open)), space(), std::move(inside), space(),
                        text_node(std::string(1, close))});
}

GrammarNodePtr JsonGrammar::member(GrammarNodePtr key, GrammarNodePtr value) {
  return sequence_node(
      {std::move(key), text_node(":"), optional_node(text_node(" ")), std::move(value)});
}

GrammarNodePtr JsonGrammar::character() {
  return once(character_, "character",
              choice_node({other_chars_node({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}),
                           sequence_node({text_node("\\"), choice_node({chars_node({{'"', '"'},
                                                                                    {'\\', '\\'},
                                                                                    {'/', '/'},
                                                                                    {'b', 'b'},
                                                                                    {'f', 'f'},
                                                                                    {'n', 'n'},
                                                                                    {'r', 'r'},
                                                                                    {'t', 't'}}),
                                                                        unicode_escape()})})}));
}

GrammarNodePtr JsonGrammar::character_of(const CharRanges& chars) {
  CharRanges plain;
  std::vector<GrammarNodePtr> choices;
  const auto has = [&](uint32_t code) {
    return std::any_of(chars.begin(), chars.end(), [&](const auto& range) {
      return code >= range.first && code <= range.second;
    });
  };
  for (const auto& [code, escape] : std::initializer_list<std::pair<uint32_t, const char*>>{
           {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}}) {
    if (has(code)) {
      choices.push_back(text_node(escape));
    }
  }
  for (auto [low, high] : chars) {  // without what must be escaped
    low = std::max<uint32_t>(low, 0x20);
    for (const uint32_t special : {uint32_t{'"'}, uint32_t{'\\'}}) {
      if (low <= special && special <= high) {
        if (low < special) {
          plain.emplace_back(low, special - 1);
        }
        low = special + 1;
      }
    }
    if (low <= high) {
      plain.emplace_back(low, high);
    }
  }
  if (!plain.empty()) {
    choices.push_back(chars_node(std::move(plain)));
  }
  return choice_node(std::move(choices));
}

GrammarNodePtr JsonGrammar::quoted(GrammarNodePtr inside) {
  return sequence_node({text_node("\""), std::move(inside), text_node("\"")});
}

GrammarNodePtr JsonGrammar::string(int64_t least, int64_t most) {
  if (least == 0 && most == -1) {
    return once(string_, "string", quoted(repeat_node(character(), 0, -1)));
  }
  return quoted(repeat_node(character(), least, most));
}

GrammarNodePtr JsonGrammar::other_key(const std::vector<std::string>& names) {
  const std::set<std::string> unique(names.begin(), names.end());
  const std::vector<std::string> sorted(unique.begin(), unique.end());
  return quoted(other_than(sorted, 0));
}

GrammarNodePtr JsonGrammar::integer() {
  return sequence_node(
      {minus_node(),
       choice_node({text_node("0"),
                    sequence_node({digit_node('1', '9'), digits_node(0, kMostDigits - 1)})})});
}

GrammarNodePtr JsonGrammar::number() {
  return sequence_node(
      {integer(), optional_node(sequence_node({text_node("."), digits_node(1, kMostFraction)})),
       optional_node(sequence_node({chars_node({{'e', 'e'}, {'E', 'E'}}),
                                    optional_node(chars_node({{'+', '+'}, {'-', '-'}})),
                                    digits_node(1, 2)}))});
}

GrammarNodePtr JsonGrammar::integer_between(int64_t low, int64_t high) {
  std::vector<GrammarNodePtr> choices;
  if (low < 0) {
    const int64_t nearest = std::min<int64_t>(high, -1);
    add_natural(static_cast<uint64_t>(-nearest), static_cast<uint64_t>(-low), "-", choices);
  }
  if (high >= 0) {
    add_natural(static_cast<uint64_t>(std::max<int64_t>(low, 0)), static_cast<uint64_t>(high), "",
                choices);
  }
  return choice_node(std::move(choices));
}

GrammarNodePtr JsonGrammar::array() {
  if (!array_) {
    array_ = builder_.declare("array");
    builder_.define(*array_,
                    between('[',
                            optional_node(sequence_node(
                                {value(), repeat_node(sequence_node({comma(), value()}), 0, -1)})),
                            ']'));
  }
  return rule_node(*array_);
}

GrammarNodePtr JsonGrammar::object() {
  if (!object_) {
    object_ = builder_.declare("object");
    const GrammarNodePtr one = member(string(), value());
    builder_.define(
        *object_,
        between(
            '{',
            optional_node(sequence_node({one, repeat_node(sequence_node({comma(), one}), 0, -1)})),
            '}'));
  }
  return rule_node(*object_);
}

GrammarNodePtr JsonGrammar::value() {
  if (!value_) {
    value_ = builder_.declare("value");
    builder_.define(*value_, choice_node({object(), array(), string(), number(), text_node("true"),
                                          text_node("false"), text_node("null")}));
  }
  return rule_node(*value_);
}

Grammar Grammar::json_object() {
  GrammarBuilder builder("JSON");
  const uint32_t root = builder.declare("root");
  builder.define(root, JsonGrammar(builder).object());
  return Grammar(std::make_shared<GrammarRules>(builder.build(root)));
}

}  // namespace heed
