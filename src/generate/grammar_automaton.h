#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "generate/grammar_rules.h"

namespace heed {

/// Follows texts through a grammar byte by byte. A state is the set of all ways in which the text
/// so far can go on; states and the bytes between them are remembered, so that a way that was gone
/// before costs one look-up.
class GrammarAutomaton {
 public:
  static constexpr int32_t kDead = -1;

  explicit GrammarAutomaton(const GrammarRules& rules);

  int32_t start() const { return start_; }
  /// The state behind one more byte; kDead where no text goes on so. A grammar that is so ambiguous
  /// that its states grow without bound, or take more than kMostSteps, is cut short: some of its
  /// texts are missed, and none is added.
  int32_t next(int32_t state, uint8_t byte) {
    if (state == kDead) {
      return kDead;
    }
    const int32_t known = states_[static_cast<size_t>(state)].next[byte];
    return known != kUnknown ? known : compute_next(state, byte);
  }
  /// Whether the text may end in this state.
  bool accepts(int32_t state) const {
    return state != kDead && states_[static_cast<size_t>(state)].accepts;
  }
  /// Whether so much is remembered that forgetting pays.
  bool is_large() const { return states_.size() > kManyStates || stacks_.size() > kManyStacks; }
  /// Allows kMostSteps more. To be called for every token: a grammar comes from anywhere, and no
  /// token may take long.
  void begin_token() { steps_ = 0; }
  /// Forgets everything but a state, and gives its new number.
  int32_t forget_all_but(int32_t state);

 private:
  static constexpr int32_t kUnknown = -2;
  static constexpr int32_t kEmpty = -1;        // the stack with nothing on it
  static constexpr size_t kManyStates = 4096;  // about 1 KB each
  static constexpr size_t kManyStacks = size_t{1} << 20;
  static constexpr size_t kMostStates = size_t{1} << 16;
  static constexpr size_t kMostWays = 8192;      // stacks of one state
  static constexpr size_t kMostSteps = 1 << 19;  // per token: about 0.1 s, and 30 MB of stacks

  /// Where to go on, on top of where to go on behind it.
  struct Stack {
    uint32_t position;
    int32_t below;
  };
  struct State {
    std::vector<int32_t> stacks;  // sorted; on top of each a symbol of bytes
    bool accepts = false;
    std::array<int32_t, 256> next;
  };
  struct Hash {
    size_t operator()(const std::vector<int32_t>& stacks) const;
  };

  int32_t push(uint32_t position, int32_t below);
  void follow(uint32_t position, int32_t below);
  int32_t finish_state();
  int32_t compute_next(int32_t state, uint8_t byte);

  const GrammarRules& rules_;
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, int32_t> stack_numbers_;
  std::vector<State> states_;
  std::unordered_map<std::vector<int32_t>, int32_t, Hash> state_numbers_[2];  // by `accepts`
  int32_t start_ = kDead;
  // The state that is being made.
  std::vector<int32_t> ways_;
  std::vector<std::pair<uint32_t, int32_t>> open_;
  std::unordered_map<uint64_t, bool> seen_;
  bool accepts_ = false;
  size_t steps_ = 0;  // since the last begin_token()
};

}  // namespace heed
