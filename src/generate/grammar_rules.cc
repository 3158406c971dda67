#include "generate/grammar_rules.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "base/check.h"
#include "generate/grammar_automaton.h"
#include "text/unicode.h"

namespace heed {
namespace {

constexpr size_t kMostSymbols = size_t{1} << 20;  // of one grammar
constexpr int64_t kMostRepetitions = 1 << 16;
using Kind = GrammarSymbol::Kind;

GrammarNodePtr make(GrammarNode node) {
  for (const GrammarNodePtr& part : node.parts) {
    node.depth = std::max(node.depth, part->depth + 1);
  }
  check_data(node.depth <= kDeepestNode, "grammar", "expressions are nested too deeply");
  return std::make_shared<const GrammarNode>(std::move(node));
}

GrammarSymbol byte_symbol(uint8_t low, uint8_t high) { return {Kind::bytes, low, high, 0}; }
GrammarSymbol rule_symbol(uint32_t rule) { return {Kind::rule, 0, 0, rule}; }

/// Sorted, without overlaps.
CharRanges normalised(CharRanges chars) {
  std::sort(chars.begin(), chars.end());
  CharRanges merged;
  for (const auto& [low, high] : chars) {
    if (!merged.empty() && low <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, high);
    } else {
      merged.emplace_back(low, high);
    }
  }
  return merged;
}

std::string utf8(uint32_t code) {
  std::string bytes;
  text::append_code(bytes, code);
  return bytes;
}

/// Calls fn with sequences of byte ranges, which together are the UTF-8 of [low, high]: cut where
/// the length changes, then until all but the leading bytes run through their whole range.
void utf8_ranges(uint32_t low, uint32_t high,
                 const std::function<void(const std::vector<GrammarSymbol>&)>& fn) {
  constexpr std::array<std::pair<uint32_t, uint32_t>, 5> kPlain{
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCodePoint}}};
  const std::function<void(uint32_t, uint32_t)> cut = [&](uint32_t from, uint32_t to) {
    if (to >= 0x80) {
      for (int shift = 6; shift <= 18; shift += 6) {
        const uint32_t mask = (uint32_t{1} << shift) - 1;
        if ((from & ~mask) == (to & ~mask)) {
          continue;
        }
        if ((from & mask) != 0) {
          cut(from, from | mask);
          cut((from | mask) + 1, to);
          return;
        }
        if ((to & mask) != mask) {
          cut(from, (to & ~mask) - 1);
          cut(to & ~mask, to);
          return;
        }
      }
    }
    const std::string first = utf8(from);
    const std::string last = utf8(to);
    std::vector<GrammarSymbol> symbols;
    for (size_t i = 0; i < first.size(); ++i) {
      symbols.push_back(byte_symbol(static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])));
    }
    fn(symbols);
  };
  for (const auto& [begin, end] : kPlain) {
    if (std::max(low, begin) <= std::min(high, end)) {
      cut(std::max(low, begin), std::min(high, end));
    }
  }
}

}  // namespace

GrammarNodePtr literal_node(std::string text) {
  return make({.kind = GrammarNode::Kind::literal, .text = std::move(text)});
}
GrammarNodePtr chars_node(CharRanges chars) {
  return make({.kind = GrammarNode::Kind::chars, .chars = normalised(std::move(chars))});
}
GrammarNodePtr other_chars_node(CharRanges chars) {
  CharRanges others;
  uint32_t next = 0;
  for (const auto& [low, high] : normalised(std::move(chars))) {
    if (low > next) {
      others.emplace_back(next, low - 1);
    }
    next = high + 1;
  }
  if (next <= kLastCodePoint) {
    others.emplace_back(next, kLastCodePoint);
  }
  return make({.kind = GrammarNode::Kind::chars, .chars = std::move(others)});
}
GrammarNodePtr rule_node(uint32_t rule) {
  return make({.kind = GrammarNode::Kind::rule, .rule = rule});
}
GrammarNodePtr sequence_node(std::vector<GrammarNodePtr> parts) {
  return make({.kind = GrammarNode::Kind::sequence, .parts = std::move(parts)});
}
GrammarNodePtr choice_node(std::vector<GrammarNodePtr> parts) {
  return make({.kind = GrammarNode::Kind::choice, .parts = std::move(parts)});
}
GrammarNodePtr repeat_node(GrammarNodePtr part, int64_t least, int64_t most) {
  return make({.kind = GrammarNode::Kind::repeat,
               .parts = {std::move(part)},
               .least = least,
               .most = most});
}

uint32_t GrammarBuilder::declare(std::string title) {
  titles_.push_back(std::move(title));
  rules_.rules.emplace_back();
  return static_cast<uint32_t>(rules_.rules.size() - 1);
}

void GrammarBuilder::add_alternative(uint32_t rule, std::vector<GrammarSymbol> symbols) {
  check_data(rules_.symbols.size() + symbols.size() < kMostSymbols, rules_.name,
             "is too large: it unfolds to more than {} symbols", kMostSymbols);
  rules_.rules[rule].push_back(static_cast<uint32_t>(rules_.symbols.size()));
  rules_.symbols.insert(rules_.symbols.end(), symbols.begin(), symbols.end());
  rules_.symbols.emplace_back();
}

void GrammarBuilder::define(uint32_t rule, const GrammarNodePtr& node) {
  const std::vector<GrammarNodePtr> parts =
      node->kind == GrammarNode::Kind::choice ? node->parts : std::vector{node};
  for (const GrammarNodePtr& part : parts) {
    std::vector<GrammarSymbol> symbols;
    emit(part, symbols);
    add_alternative(rule, std::move(symbols));
  }
}

void GrammarBuilder::emit(const GrammarNodePtr& node, std::vector<GrammarSymbol>& out) {
  switch (node->kind) {
    case GrammarNode::Kind::literal:
      for (const char c : node->text) {
        out.push_back(byte_symbol(static_cast<uint8_t>(c), static_cast<uint8_t>(c)));
      }
      break;
    case GrammarNode::Kind::chars:
      emit_chars(node->chars, out);
      break;
    case GrammarNode::Kind::rule:
      out.push_back(rule_symbol(node->rule));
      break;
    case GrammarNode::Kind::sequence:
      for (const GrammarNodePtr& part : node->parts) {
        emit(part, out);
      }
      break;
    case GrammarNode::Kind::choice: {
      const uint32_t rule = declare("a choice");
      define(rule, node);
      out.push_back(rule_symbol(rule));
      break;
    }
    case GrammarNode::Kind::repeat:
      emit_repeat(*node, out);
      break;
  }
}

void GrammarBuilder::emit_chars(const CharRanges& chars, std::vector<GrammarSymbol>& out) {
  if (chars.size() == 1 && chars.front().second < 0x80) {
    out.push_back(byte_symbol(static_cast<uint8_t>(chars.front().first),
                              static_cast<uint8_t>(chars.front().second)));
    return;
  }
  const auto known = classes_.find(chars);
  if (known != classes_.end()) {
    out.push_back(rule_symbol(known->second));
    return;
  }
  const uint32_t rule = declare("a class of characters");
  for (const auto& [low, high] : chars) {
    utf8_ranges(low, high,
                [&](const std::vector<GrammarSymbol>& symbols) { add_alternative(rule, symbols); });
  }
  classes_.emplace(chars, rule);
  out.push_back(rule_symbol(rule));
}

void GrammarBuilder::emit_repeat(const GrammarNode& node, std::vector<GrammarSymbol>& out) {
  check_data(node.least <= kMostRepetitions && node.most <= kMostRepetitions, rules_.name,
             "repeats something {} times; at most {} are supported",
             std::max(node.least, node.most), kMostRepetitions);
  std::vector<GrammarSymbol> once;
  emit(node.parts.front(), once);
  if (once.size() != 1) {
    const uint32_t rule = declare("a repetition");
    add_alternative(rule, std::move(once));
    once = {rule_symbol(rule)};
  }
  out.insert(out.end(), static_cast<size_t>(node.least), once.front());
  if (node.most == -1) {
    const uint32_t more = declare("a repetition");
    add_alternative(more, {once.front(), rule_symbol(more)});
    add_alternative(more, {});
    out.push_back(rule_symbol(more));
    return;
  }
  // x{0,3} is (x (x (x)?)?)?: what comes next never depends on a count, only on the rule.
  std::optional<uint32_t> inner;
  for (int64_t i = node.least; i < node.most; ++i) {
    const uint32_t rule = declare("a repetition");
    inner ? add_alternative(rule, {once.front(), rule_symbol(*inner)})
          : add_alternative(rule, {once.front()});
    add_alternative(rule, {});
    inner = rule;
  }
  if (inner) {
    out.push_back(rule_symbol(*inner));
  }
}

/// The rules with an alternative of which every symbol holds; `bytes` says whether bytes do. In
/// time linear in the size of the grammar, which may come from a client.
std::vector<bool> GrammarBuilder::rules_that_hold(bool bytes) const {
  struct Alternative {
    uint32_t rule;
    uint32_t missing = 0;  // calls of rules that are not known to hold
    bool possible = true;
  };
  std::vector<Alternative> alternatives;
  std::vector<std::vector<uint32_t>> users(rules_.rules.size());  // by rule: who waits for it
  std::vector<bool> holds(rules_.rules.size(), false);
  std::vector<uint32_t> open;
  const auto settle = [&](const Alternative& one) {
    if (one.possible && one.missing == 0 && !holds[one.rule]) {
      holds[one.rule] = true;
      open.push_back(one.rule);
    }
  };
  for (uint32_t rule = 0; rule < rules_.rules.size(); ++rule) {
    for (uint32_t position : rules_.rules[rule]) {
      Alternative one{rule};
      for (; rules_.symbols[position].kind != Kind::end; ++position) {
        const GrammarSymbol& symbol = rules_.symbols[position];
        if (symbol.kind == Kind::bytes) {
          one.possible = one.possible && bytes;
        } else {
          users[symbol.rule].push_back(static_cast<uint32_t>(alternatives.size()));
          ++one.missing;
        }
      }
      alternatives.push_back(one);
    }
  }
  for (const Alternative& one : alternatives) {
    settle(one);
  }
  while (!open.empty()) {
    const uint32_t rule = open.back();
    open.pop_back();
    for (const uint32_t user : users[rule]) {
      --alternatives[user].missing;
      settle(alternatives[user]);
    }
  }
  return holds;
}

/// Removes alternatives that derive no finite text: a model that had begun one could never end.
void GrammarBuilder::remove_barren() {
  const std::vector<bool> fertile = rules_that_hold(true);
  check_data(fertile[rules_.root], rules_.name, "allows no text at all: '{}' never comes to an end",
             titles_[rules_.root]);
  for (auto& alternatives : rules_.rules) {
    std::erase_if(alternatives, [&](uint32_t position) {
      for (; rules_.symbols[position].kind != Kind::end; ++position) {
        const GrammarSymbol& symbol = rules_.symbols[position];
        if (symbol.kind == Kind::rule && !fertile[symbol.rule]) {
          return true;
        }
      }
      return false;
    });
  }
}

/// The calls that may come first in a rule; `last` where nothing follows them.
std::vector<std::vector<GrammarBuilder::Call>> GrammarBuilder::first_calls() const {
  const std::vector<bool> nullable = rules_that_hold(false);
  std::vector<std::vector<Call>> first(rules_.rules.size());
  for (size_t rule = 0; rule < first.size(); ++rule) {
    for (uint32_t position : rules_.rules[rule]) {
      for (; rules_.symbols[position].kind == Kind::rule; ++position) {
        const uint32_t called = rules_.symbols[position].rule;
        first[rule].push_back({called, rules_.symbols[position + 1].kind == Kind::end});
        if (!nullable[called]) {
          break;
        }
      }
    }
  }
  return first;
}

/// A rule must not begin with itself, unless nothing follows it there: then nothing has to be
/// remembered. Tarjan's strongly connected components, with a stack of our own.
void GrammarBuilder::check_left_recursion() const {
  const std::vector<std::vector<Call>> first = first_calls();
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> order(first.size(), kNone);  // in which rules are found
  std::vector<uint32_t> lowest(first.size(), 0);
  std::vector<uint32_t> component(first.size(), kNone);
  std::vector<uint32_t> waiting;
  std::vector<std::pair<uint32_t, size_t>> path;  // rule, next call
  uint32_t found = 0;
  for (uint32_t start = 0; start < first.size(); ++start) {
    if (order[start] == kNone) {
      path.emplace_back(start, 0);
    }
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == 0 && order[rule] == kNone) {
        order[rule] = lowest[rule] = found++;
        waiting.push_back(rule);
      }
      if (next < first[rule].size()) {
        const uint32_t called = first[rule][next++].rule;
        if (order[called] == kNone) {
          path.emplace_back(called, 0);
        } else if (component[called] == kNone) {
          lowest[rule] = std::min(lowest[rule], order[called]);
        }
        continue;
      }
      if (lowest[rule] == order[rule]) {
        for (uint32_t member = kNone; member != rule;) {
          member = waiting.back();
          waiting.pop_back();
          component[member] = rule;
        }
      }
      const uint32_t low = lowest[rule];
      path.pop_back();
      if (!path.empty()) {
        lowest[path.back().first] = std::min(lowest[path.back().first], low);
      }
    }
  }
  for (size_t rule = 0; rule < first.size(); ++rule) {
    for (const Call& call : first[rule]) {
      check_data(call.last || component[call.rule] != component[rule], rules_.name,
                 "'{}' is left-recursive: it begins with itself. Write the repetition with * or +",
                 titles_[rule]);
    }
  }
}

GrammarRules GrammarBuilder::build(uint32_t root) {
  rules_.root = root;
  remove_barren();
  check_left_recursion();
  check_data(GrammarAutomaton(rules_).start() != GrammarAutomaton::kDead, rules_.name,
             "is too ambiguous: its first character has more derivations than can be followed");
  return std::move(rules_);
}

}  // namespace heed
