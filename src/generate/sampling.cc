#include "generate/sampling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/softmax.h"

namespace heed {
namespace {

template <class T>
void in_range(bool fits, const char* option, T value, const char* wanted) {
  if (!fits) {
    fail(ErrorKind::usage, option, "{} is out of range; {}", value, wanted);
  }
}

}  // namespace

void Sampling::check() const {
  in_range(temperature >= 0.0 && temperature <= 100.0, "temperature", temperature,
           "0 (greedy) to 100");
  in_range(top_n_sigma >= 0.0 && top_n_sigma <= 1e6, "top_n_sigma", top_n_sigma, "0 (off) to 1e6");
  in_range(top_k >= 0, "top_k", top_k, "0 (off) or more");
  in_range(top_p > 0.0 && top_p <= 1.0, "top_p", top_p, "above 0, up to 1");
  in_range(min_p >= 0.0 && min_p < 1.0, "min_p", min_p, "0 up to, not including, 1");
  in_range(typical_p > 0.0 && typical_p <= 1.0, "typical_p", typical_p, "above 0, up to 1");
  in_range(mirostat == 0 || mirostat == 2, "mirostat", mirostat, "0 (off) or 2");
  in_range(mirostat_tau > 0.0 && mirostat_tau <= 100.0, "mirostat_tau", mirostat_tau,
           "above 0, up to 100");
  in_range(mirostat_eta > 0.0 && mirostat_eta <= 1.0, "mirostat_eta", mirostat_eta,
           "above 0, up to 1");
  in_range(repetition_penalty > 0.0 && repetition_penalty <= 100.0, "repetition_penalty",
           repetition_penalty, "above 0, up to 100");
  in_range(std::abs(frequency_penalty) <= 100.0, "frequency_penalty", frequency_penalty,
           "-100 to 100");
  in_range(std::abs(presence_penalty) <= 100.0, "presence_penalty", presence_penalty,
           "-100 to 100");
  in_range(no_repeat_ngram_size >= 0, "no_repeat_ngram_size", no_repeat_ngram_size,
           "0 (off) or more");
  in_range(dry_multiplier >= 0.0 && dry_multiplier <= 100.0, "dry_multiplier", dry_multiplier,
           "0 (off) to 100");
  in_range(dry_base >= 1.0 && dry_base <= 100.0, "dry_base", dry_base, "1 to 100");
  in_range(dry_allowed_length >= 1, "dry_allowed_length", dry_allowed_length, "1 or more");
  in_range(dry_range >= -1, "dry_range", dry_range, "-1 (all) or more");
  for (const auto& [id, bias] : logit_bias) {
    in_range(id >= 0, "logit_bias", id, "a token id");
    in_range(!std::isnan(bias), "logit_bias", bias, "a number");
  }
}

int64_t best_token(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

/// Leaves out what surprises more than the limit allows; at least the best token stays.
static void truncate_surprises(std::vector<Candidate>& candidates, const MirostatState& mirostat) {
  size_t count = 1;
  double kept = candidates.front().probability;
  while (count < candidates.size() && -std::log2(candidates[count].probability) <= mirostat.limit) {
    kept += candidates[count++].probability;
  }
  candidates.resize(count);
  for (Candidate& c : candidates) {
    c.probability /= kept;
  }
}

int64_t pick_token(std::span<const float> logits, const Sampling& sampling, uint64_t stream,
                   uint64_t step, MirostatState& mirostat) {
  if (is_greedy(sampling)) {
    return best_token(logits);
  }
  Random random(sampling.seed, stream);
  random.seek(step * 2);
  double point = random.uniform();
  if (const std::optional<int64_t> id = token_at(logits, sampling, point)) {
    return *id;
  }
  std::vector<Candidate> candidates = candidate_tokens(logits, sampling);
  if (sampling.mirostat == 2) {
    truncate_surprises(candidates, mirostat);
  }
  const Candidate* chosen = &candidates.back();
  for (const Candidate& c : candidates) {
    if (point < c.probability) {
      chosen = &c;
      break;
    }
    point -= c.probability;
  }
  if (sampling.mirostat == 2) {
    const double surprise = -std::log2(chosen->probability);
    mirostat.limit -= sampling.mirostat_eta * (surprise - sampling.mirostat_tau);
  }
  return chosen->id;
}

SampledToken sample_token(const float* raw, int64_t vocabulary, const Sampling& sampling,
                          uint64_t stream, uint64_t step, const std::vector<int64_t>& history) {
  const double normaliser = kernels::log_sum_exp(raw, vocabulary);
  check(std::isfinite(normaliser), "generate", "the model's logits are not finite");
  std::span<const float> values(raw, static_cast<size_t>(vocabulary));
  std::vector<float> changed;
  if (changes_logits(sampling)) {
    changed.assign(values.begin(), values.end());
    process_logits(changed, history, 0, sampling);
    values = changed;
  }
  MirostatState mirostat(sampling);
  const int64_t id = pick_token(values, sampling, stream, step, mirostat);
  return {id, raw[id] - normaliser};
}

}  // namespace heed
