#pragma once

#include <optional>
#include <span>
#include <vector>

#include "heed/generate.h"

namespace heed {

/// Temperatures below this one are greedy: no two different logits of a model are this near.
inline constexpr double kGreedyTemperature = 1e-9;

inline bool is_greedy(const Sampling& sampling) {
  return sampling.temperature < kGreedyTemperature;
}

/// Whether process_logits() would change anything.
bool changes_logits(const Sampling& sampling);

/// Bias, penalties, DRY and repeated n-grams. `tokens` are the prompt, `prompt_length` long, and
/// what was generated. Works on log-probabilities, too.
void process_logits(std::span<float> logits, const std::vector<int64_t>& tokens,
                    size_t prompt_length, const Sampling& sampling);

/// A token that passed the filters.
struct Candidate {
  int64_t id;
  double logit;  ///< minus the best one's, over the temperature
  double probability;
};

/// What the filters leave of processed logits, best first; probabilities add up to 1. Not for
/// greedy sampling.
std::vector<Candidate> candidate_tokens(std::span<const float> logits, const Sampling& sampling);

/// The token at `point` in [0, 1) of the probabilities of candidate_tokens() laid end to end, where
/// no filter shortens them: only those before it are put in order. None where there is a filter, or
/// where rounding could decide between two tokens.
std::optional<int64_t> token_at(std::span<const float> logits, const Sampling& sampling,
                                double point);

/// The index of the largest value, of equals the first.
int64_t best_token(std::span<const float> logits);

/// Mirostat's state: the surprise, in bits, above which tokens are left out.
struct MirostatState {
  explicit MirostatState(const Sampling& sampling) : limit(2.0 * sampling.mirostat_tau) {}
  double limit;
};

/// Chooses from processed logits by the random number of `stream` and `step`.
int64_t pick_token(std::span<const float> logits, const Sampling& sampling, uint64_t stream,
                   uint64_t step, MirostatState& mirostat);

}  // namespace heed
