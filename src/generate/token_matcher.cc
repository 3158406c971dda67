#include <algorithm>
#include <limits>

#include "base/check.h"
#include "generate/grammar_automaton.h"
#include "generate/token_trie.h"
#include "heed/generate.h"
#include "text/token_bytes.h"

namespace heed {
namespace {

constexpr size_t kMostMasks = 256;  // remembered for one text: 19 KB each for 150,000 tokens
constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

using Mask = std::vector<uint64_t>;  // one bit per token

}  // namespace

bool Grammar::matches(std::string_view text) const {
  GrammarAutomaton automaton(*rules_);
  int32_t state = automaton.start();
  for (size_t i = 0; i < text.size() && state != GrammarAutomaton::kDead; ++i) {
    automaton.begin_token();
    state = automaton.next(state, static_cast<uint8_t>(text[i]));
    state = automaton.is_large() && state >= 0 ? automaton.forget_all_but(state) : state;
  }
  return state != GrammarAutomaton::kDead && automaton.accepts(state);
}

bool Grammar::matches_prefix(std::string_view text) const {
  GrammarAutomaton automaton(*rules_);
  int32_t state = automaton.start();
  for (size_t i = 0; i < text.size() && state != GrammarAutomaton::kDead; ++i) {
    automaton.begin_token();
    state = automaton.next(state, static_cast<uint8_t>(text[i]));
    state = automaton.is_large() && state >= 0 ? automaton.forget_all_but(state) : state;
  }
  return state != GrammarAutomaton::kDead;
}

TokenTable::TokenTable(const Tokenizer& tokenizer)
    : trie_(std::make_shared<TokenTrie>(text::token_bytes(tokenizer))) {}

struct TokenMatcher::Impl {
  Impl(const Grammar& grammar_in, const TokenTable& tokens_in)
      : grammar(grammar_in),
        tokens(tokens_in),
        trie(tokens.trie()),
        automaton(grammar.rules()),
        state(automaton.start()) {}

  /// The state behind a token; dead where it may not come.
  int32_t behind(int64_t id) {
    if (id < 0 || id >= trie.size() || trie.bytes(id).empty()) {
      return GrammarAutomaton::kDead;
    }
    int32_t at = state;
    for (const char c : trie.bytes(id)) {
      at = automaton.next(at, static_cast<uint8_t>(c));
      if (at == GrammarAutomaton::kDead) {
        break;
      }
    }
    return at;
  }

  const Mask& allowed();

  Grammar grammar;
  TokenTable tokens;
  const TokenTrie& trie;
  GrammarAutomaton automaton;
  int32_t state;
  std::unordered_map<int32_t, Mask> masks;  // by state
};

/// Walks the trie and the grammar together; where the grammar ends, the trie's branch is skipped.
const Mask& TokenMatcher::Impl::allowed() {
  const auto known = masks.find(state);
  if (known != masks.end()) {
    return known->second;
  }
  if (masks.size() >= kMostMasks) {
    masks.clear();
  }
  Mask& mask = masks[state];
  mask.assign(static_cast<size_t>(trie.size() + 63) / 64, 0);
  std::vector<int32_t> states(size_t{trie.longest()} + 1, state);  // by depth
  const auto& nodes = trie.nodes();
  for (size_t at = 0; at < nodes.size();) {
    const TokenTrie::Node& node = nodes[at];
    const int32_t next = automaton.next(states[node.depth - size_t{1}], node.byte);
    if (next == GrammarAutomaton::kDead) {
      at = node.skip;
      continue;
    }
    states[node.depth] = next;
    for (uint32_t i = node.begin; i < node.begin + node.count; ++i) {
      const auto id = static_cast<size_t>(trie.ids()[i]);
      mask[id / 64] |= uint64_t{1} << (id % 64);
    }
    ++at;
  }
  return mask;
}

TokenMatcher::TokenMatcher(const Grammar& grammar, const TokenTable& tokens)
    : impl_(std::make_unique<Impl>(grammar, tokens)) {}
TokenMatcher::~TokenMatcher() = default;
TokenMatcher::TokenMatcher(TokenMatcher&&) noexcept = default;
TokenMatcher& TokenMatcher::operator=(TokenMatcher&&) noexcept = default;

bool TokenMatcher::allows(int64_t id) const { return impl_->behind(id) != GrammarAutomaton::kDead; }

bool TokenMatcher::may_end() const { return impl_->automaton.accepts(impl_->state); }

bool TokenMatcher::mask(std::span<float> logits, std::span<const int64_t> end) {
  const Mask& allowed = impl_->allowed();
  const bool ends = may_end();
  bool any = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    const bool is_end = std::find(end.begin(), end.end(), static_cast<int64_t>(id)) != end.end();
    const bool fits =
        is_end ? ends : id / 64 < allowed.size() && ((allowed[id / 64] >> (id % 64)) & 1U) != 0;
    logits[id] = fits ? logits[id] : kRuledOut;
    any = any || logits[id] > kRuledOut;
  }
  return any;
}

bool TokenMatcher::accept(int64_t id) {
  impl_->automaton.begin_token();
  const int32_t next = impl_->behind(id);
  if (next == GrammarAutomaton::kDead) {
    return false;
  }
  impl_->state = next;
  if (impl_->automaton.is_large()) {
    impl_->masks.clear();
    impl_->state = impl_->automaton.forget_all_but(next);
  }
  return true;
}

}  // namespace heed
