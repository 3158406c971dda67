#include "generate/grammar_automaton.h"

#include <algorithm>

namespace heed {
namespace {

using Kind = GrammarSymbol::Kind;

uint64_t key_of(uint32_t position, int32_t below) {
  return (uint64_t{position} << 32) | static_cast<uint32_t>(below);
}

}  // namespace

size_t GrammarAutomaton::Hash::operator()(const std::vector<int32_t>& stacks) const {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const int32_t stack : stacks) {
    hash = (hash ^ static_cast<uint32_t>(stack)) * 0x100000001b3U;
    hash ^= hash >> 29;
  }
  return hash;
}

GrammarAutomaton::GrammarAutomaton(const GrammarRules& rules) : rules_(rules) {
  for (const uint32_t position : rules_.rules[rules_.root]) {
    follow(position, kEmpty);
  }
  start_ = finish_state();
  begin_token();
}

int32_t GrammarAutomaton::push(uint32_t position, int32_t below) {
  const auto [found, added] =
      stack_numbers_.try_emplace(key_of(position, below), static_cast<int32_t>(stacks_.size()));
  if (added) {
    stacks_.push_back({position, below});
  }
  return found->second;
}

/// Adds the ways to go on from a position to the state that is being made. With a list instead of
/// recursion: a grammar comes from anywhere, and its depth must not be the program's.
void GrammarAutomaton::follow(uint32_t first, int32_t first_below) {
  open_.emplace_back(first, first_below);
  while (!open_.empty()) {
    const auto [position, below] = open_.back();
    open_.pop_back();
    if (ways_.size() >= kMostWays || ++steps_ > kMostSteps ||
        !seen_.try_emplace(key_of(position, below), true).second) {
      continue;
    }
    const GrammarSymbol& symbol = rules_.symbols[position];
    if (symbol.kind == Kind::bytes) {
      ways_.push_back(push(position, below));
    } else if (symbol.kind == Kind::rule) {
      // Where nothing follows the call, there is nothing to come back to.
      const bool last = rules_.symbols[position + 1].kind == Kind::end;
      const int32_t back = last ? below : push(position + 1, below);
      for (const uint32_t alternative : rules_.rules[symbol.rule]) {
        open_.emplace_back(alternative, back);
      }
    } else if (below == kEmpty) {
      accepts_ = true;
    } else {
      const Stack under = stacks_[static_cast<size_t>(below)];
      open_.emplace_back(under.position, under.below);
    }
  }
}

/// The number of the state that `ways_` and `accepts_` make up; kDead for none.
int32_t GrammarAutomaton::finish_state() {
  std::sort(ways_.begin(), ways_.end());
  ways_.erase(std::unique(ways_.begin(), ways_.end()), ways_.end());
  int32_t number = kDead;
  if ((!ways_.empty() || accepts_) && states_.size() < kMostStates) {
    const auto [found, added] =
        state_numbers_[accepts_ ? 1 : 0].try_emplace(ways_, static_cast<int32_t>(states_.size()));
    number = found->second;
    if (added) {
      State& state = states_.emplace_back();
      state.stacks = ways_;
      state.accepts = accepts_;
      state.next.fill(kUnknown);
    }
  }
  ways_.clear();
  seen_.clear();
  accepts_ = false;
  return number;
}

int32_t GrammarAutomaton::compute_next(int32_t state, uint8_t byte) {
  const std::vector<int32_t> stacks = states_[static_cast<size_t>(state)].stacks;
  constexpr size_t kComparedPerStep = 64;  // bytes are compared much faster than rules are followed
  steps_ += 1 + stacks.size() / kComparedPerStep;
  if (steps_ > kMostSteps) {
    return kDead;  // for this token only: not remembered
  }
  for (const int32_t number : stacks) {
    const Stack stack = stacks_[static_cast<size_t>(number)];
    const GrammarSymbol& symbol = rules_.symbols[stack.position];
    if (byte >= symbol.low && byte <= symbol.high) {
      follow(stack.position + 1, stack.below);
    }
  }
  const int32_t next = finish_state();
  states_[static_cast<size_t>(state)].next[byte] = next;
  return next;
}

int32_t GrammarAutomaton::forget_all_but(int32_t state) {
  // The stacks in full, top first.
  std::vector<std::vector<uint32_t>> kept;
  for (int32_t number : states_[static_cast<size_t>(state)].stacks) {
    std::vector<uint32_t>& positions = kept.emplace_back();
    for (; number != kEmpty; number = stacks_[static_cast<size_t>(number)].below) {
      positions.push_back(stacks_[static_cast<size_t>(number)].position);
    }
  }
  const bool accepts = states_[static_cast<size_t>(state)].accepts;
  stacks_.clear();
  stack_numbers_.clear();
  states_.clear();
  state_numbers_[0].clear();
  state_numbers_[1].clear();
  for (const uint32_t position : rules_.rules[rules_.root]) {
    follow(position, kEmpty);
  }
  start_ = finish_state();
  for (const auto& positions : kept) {
    int32_t below = kEmpty;
    for (auto position = positions.rbegin(); position != positions.rend(); ++position) {
      below = push(*position, below);
    }
    ways_.push_back(below);
  }
  accepts_ = accepts;
  begin_token();
  return finish_state();
}

}  // namespace heed
