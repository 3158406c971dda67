#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "heed/generate.h"
#include "kernels/softmax.h"

namespace heed {

void Sampling::check() const {
  auto refuse = [](const char* option, double value, const char* wanted) {
    fail(ErrorKind::usage, option, "{} is out of range; {}", value, wanted);
  };
  if (!(temperature >= 0.0 && temperature <= 100.0)) {
    refuse("--temperature", temperature, "0 (greedy) to 100");
  }
  if (top_k < 0) {
    refuse("--top-k", static_cast<double>(top_k), "0 (off) or more");
  }
  if (!(top_p > 0.0 && top_p <= 1.0)) {
    refuse("--top-p", top_p, "above 0, up to 1");
  }
  if (!(min_p >= 0.0 && min_p < 1.0)) {
    refuse("--min-p", min_p, "0 up to, not including, 1");
  }
  if (!(repetition_penalty > 0.0 && repetition_penalty <= 100.0)) {
    refuse("--repetition-penalty", repetition_penalty, "above 0, up to 100");
  }
}

namespace {

struct Candidate {
  int64_t id;
  double logit;
  double probability;
};

bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// Candidates best first, after top-k, top-p and min-p; probabilities add up to 1. Only as many are
/// put in order as are kept: mostly few of a large vocabulary.
std::vector<Candidate> filtered(const std::vector<float>& logits, const Sampling& sampling) {
  std::vector<Candidate> all(logits.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = {static_cast<int64_t>(i), logits[i] / sampling.temperature, 0.0};
  }
  size_t sorted = 0;
  const auto sort_up_to = [&](size_t count) {
    count = std::min(count, all.size());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(begin, end, all.end(), better);
    std::sort(begin, end, better);
    sorted = count;
  };
  if (sampling.top_k > 0 && sampling.top_k < static_cast<int64_t>(all.size())) {
    sort_up_to(static_cast<size_t>(sampling.top_k));
    all.resize(sorted);
  }
  const double best = std::min_element(all.begin(), all.end(), better)->logit;
  double total = 0.0;
  for (Candidate& c : all) {
    c.probability = std::exp(c.logit - best);
    total += c.probability;
  }
  const double floor = sampling.min_p;  // times the best one's, which is 1 here
  double kept = 0.0;
  size_t count = 0;
  while (count < all.size()) {
    if (count == sorted) {
      sort_up_to(std::max<size_t>(2 * sorted, 256));
    }
    if (count > 0 && (kept >= sampling.top_p * total || all[count].probability < floor)) {
      break;
    }
    kept += all[count++].probability;
  }
  all.resize(count);
  for (Candidate& c : all) {
    c.probability /= kept;
  }
  return all;
}

}  // namespace

SampledToken sample_token(const float* raw, int64_t vocabulary, const Sampling& sampling,
                          uint64_t stream, uint64_t step, const std::vector<int64_t>& history) {
  const double normaliser = kernels::log_sum_exp(raw, vocabulary);
  check(std::isfinite(normaliser), "generate", "the model's logits are not finite");
  if (sampling.temperature == 0.0 && sampling.repetition_penalty == 1.0) {
    const int64_t best = std::max_element(raw, raw + vocabulary) - raw;
    return {best, raw[best] - normaliser};
  }
  std::vector<float> logits(raw, raw + vocabulary);
  if (sampling.repetition_penalty != 1.0) {
    std::vector<int64_t> seen(history);
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const auto penalty = static_cast<float>(sampling.repetition_penalty);
    for (const int64_t id : seen) {
      float& logit = logits[static_cast<size_t>(id)];
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
  }
  int64_t id = std::max_element(logits.begin(), logits.end()) - logits.begin();
  if (sampling.temperature > 0.0) {
    const std::vector<Candidate> candidates = filtered(logits, sampling);
    Random random(sampling.seed, stream);
    random.seek(step * 2);
    double point = random.uniform();
    id = candidates.back().id;
    for (const Candidate& c : candidates) {
      if (point < c.probability) {
        id = c.id;
        break;
      }
      point -= c.probability;
    }
  }
  return {id, raw[id] - normaliser};
}

}  // namespace heed
