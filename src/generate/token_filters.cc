#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "generate/sampling.h"

namespace heed {
namespace {

bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// The smallest logit that top-n-sigma keeps. Tokens that are ruled out do not count.
float sigma_threshold(std::span<const float> logits, float best, double sigmas) {
  double sum = 0.0;
  double squares = 0.0;
  double count = 0.0;
  for (const float logit : logits) {
    if (std::isfinite(logit)) {
      const double below = static_cast<double>(logit) - best;  // small numbers lose fewer digits
      sum += below;
      squares += below * below;
      count += 1.0;
    }
  }
  const double mean = sum / count;
  const double stddev = std::sqrt(std::max(squares / count - mean * mean, 0.0));
  return static_cast<float>(best - sigmas * stddev);
}

/// Tokens that are possible at all, and near enough to the best for top-n-sigma.
std::vector<Candidate> possible_tokens(std::span<const float> logits, const Sampling& sampling) {
  const float best = logits[static_cast<size_t>(best_token(logits))];
  check(std::isfinite(best), "generate", "no token can follow: all are ruled out");
  float least = -std::numeric_limits<float>::max();
  if (sampling.top_n_sigma > 0.0) {
    least = sigma_threshold(logits, best, sampling.top_n_sigma);
  }
  std::vector<Candidate> all;
  all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) {
      // Differences first: a tiny temperature must not make infinities of which none is largest.
      const double below = static_cast<double>(logits[i]) - best;
      all.push_back({static_cast<int64_t>(i), below / sampling.temperature, 0.0});
    }
  }
  return all;
}

/// Keeps the tokens whose surprise is nearest to the expected one (the entropy), until they have
/// probability typical_p together. Of a distribution that adds up to 1; leaves one that does.
void keep_typical(std::vector<Candidate>& candidates, double typical_p) {
  double entropy = 0.0;
  for (const Candidate& c : candidates) {
    entropy -= c.probability > 0.0 ? c.probability * std::log(c.probability) : 0.0;
  }
  const auto distance = [&](const Candidate& c) {
    return std::abs(-std::log(c.probability) - entropy);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  double kept = 0.0;
  size_t count = 0;
  while (count < candidates.size() && kept < typical_p) {
    kept += candidates[count++].probability;
  }
  candidates.resize(count);
  std::sort(candidates.begin(), candidates.end(), better);
  for (Candidate& c : candidates) {
    c.probability /= kept;
  }
}

/// Puts candidates in order from the best one on, only as far as they are looked at: mostly few of
/// a large vocabulary.
class BestFirst {
 public:
  explicit BestFirst(std::vector<Candidate>& all) : all_(all) {}

  void sort_up_to(size_t count) {
    count = std::min(count, all_.size());
    const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto end = all_.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(begin, end, all_.end(), better);
    std::sort(begin, end, better);
    sorted_ = count;
  }
  /// The one at `index`; those before it have been asked for.
  const Candidate& at(size_t index) {
    if (index == sorted_) {
      sort_up_to(std::max<size_t>(2 * sorted_, 256));
    }
    return all_[index];
  }

 private:
  std::vector<Candidate>& all_;
  size_t sorted_ = 0;
};

/// Gives every candidate its probability, times the sum that is returned; the best one's is 1.
double set_probabilities(std::vector<Candidate>& candidates) {
  double total = 0.0;
  for (Candidate& c : candidates) {
    c.probability = std::exp(c.logit);
    total += c.probability;
  }
  return total;
}

}  // namespace

std::vector<Candidate> candidate_tokens(std::span<const float> logits, const Sampling& sampling) {
  std::vector<Candidate> all = possible_tokens(logits, sampling);
  BestFirst best(all);
  if (sampling.top_k > 0 && sampling.top_k < static_cast<int64_t>(all.size())) {
    best.sort_up_to(static_cast<size_t>(sampling.top_k));
    all.resize(static_cast<size_t>(sampling.top_k));
  }
  const double total = set_probabilities(all);
  double kept = 0.0;
  size_t count = 0;
  while (count < all.size()) {
    const double next = best.at(count).probability;
    const bool enough = sampling.top_p < 1.0 && kept >= sampling.top_p * total;
    if (count > 0 && (enough || next < sampling.min_p || next == 0.0)) {
      break;
    }
    kept += next;
    ++count;
  }
  all.resize(count);
  for (Candidate& c : all) {
    c.probability /= kept;
  }
  if (sampling.typical_p < 1.0) {
    keep_typical(all, sampling.typical_p);
  }
  return all;
}

std::optional<int64_t> token_at(std::span<const float> logits, const Sampling& sampling,
                                double point) {
  const bool filters = sampling.top_k > 0 || sampling.top_p < 1.0 || sampling.min_p > 0.0 ||
                       sampling.typical_p < 1.0 || sampling.mirostat != 0;
  if (filters) {
    return std::nullopt;
  }
  std::vector<Candidate> all = possible_tokens(logits, sampling);
  const double total = set_probabilities(all);
  // The same sum in another order, and a difference for each candidate.
  const double rounding =
      4.0 * static_cast<double>(all.size()) * std::numeric_limits<double>::epsilon();
  BestFirst best(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Candidate& candidate = best.at(i);
    const double probability = candidate.probability / total;
    if (std::abs(point - probability) <= rounding) {
      return std::nullopt;
    }
    if (point < probability) {
      return candidate.id;
    }
    point -= probability;
  }
  return std::nullopt;
}

}  // namespace heed
