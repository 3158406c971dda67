#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "generate/sampling.h"
#include "text/token_bytes.h"

namespace heed {
namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

std::vector<int64_t> sorted(std::span<const int64_t> tokens) {
  std::vector<int64_t> result(tokens.begin(), tokens.end());
  std::sort(result.begin(), result.end());
  return result;
}

void penalise_repetition(std::span<float> logits, const std::vector<int64_t>& tokens,
                         double penalty) {
  std::vector<int64_t> seen = sorted(tokens);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  const auto factor = static_cast<float>(penalty);
  for (const int64_t id : seen) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

/// OpenAI's penalties, which look at what was generated only.
void penalise_generated(std::span<float> logits, std::span<const int64_t> generated,
                        const Sampling& sampling) {
  const auto frequency = static_cast<float>(sampling.frequency_penalty);
  const auto presence = static_cast<float>(sampling.presence_penalty);
  const std::vector<int64_t> seen = sorted(generated);
  for (size_t i = 0; i < seen.size(); ++i) {
    float& logit = logits[static_cast<size_t>(seen[i])];
    logit -= frequency;
    if (i == 0 || seen[i] != seen[i - 1]) {
      logit -= presence;
    }
  }
}

/// For every position of a text the length of what ends there and also ends the whole text: the Z
/// function of the reversed text, in linear time.
std::vector<size_t> common_suffixes(std::span<const int64_t> tokens) {
  const size_t count = tokens.size();
  const auto at = [&](size_t i) { return tokens[count - 1 - i]; };
  std::vector<size_t> z(count, 0);
  size_t left = 0;
  size_t right = 0;
  for (size_t i = 1; i < count; ++i) {
    if (i < right) {
      z[i] = std::min(right - i, z[i - left]);
    }
    while (i + z[i] < count && at(z[i]) == at(i + z[i])) {
      ++z[i];
    }
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
  }
  std::vector<size_t> lengths(count, 0);
  for (size_t i = 0; i < count; ++i) {
    lengths[i] = z[count - 1 - i];
  }
  return lengths;
}

void penalise_dry(std::span<float> logits, std::span<const int64_t> tokens,
                  const Sampling& sampling) {
  if (sampling.dry_range >= 0 && tokens.size() > static_cast<size_t>(sampling.dry_range)) {
    tokens = tokens.last(static_cast<size_t>(sampling.dry_range));
  }
  const auto breaks = [&](int64_t id) {
    return std::binary_search(sampling.dry_breakers.begin(), sampling.dry_breakers.end(), id);
  };
  size_t limit = 0;  // tokens behind the last breaker
  while (limit < tokens.size() && !breaks(tokens[tokens.size() - 1 - limit])) {
    ++limit;
  }
  const auto allowed = static_cast<size_t>(sampling.dry_allowed_length);
  if (limit < allowed) {
    return;
  }
  const std::vector<size_t> lengths = common_suffixes(tokens);
  std::unordered_map<int64_t, size_t> longest;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const size_t length = std::min(lengths[i], limit);
    if (length >= allowed && !breaks(tokens[i + 1])) {
      size_t& most = longest[tokens[i + 1]];
      most = std::max(most, length);
    }
  }
  for (const auto& [id, length] : longest) {
    const double penalty = sampling.dry_multiplier *
                           std::pow(sampling.dry_base, static_cast<double>(length - allowed));
    constexpr double kMost = 1e30;  // a logit stays a number
    logits[static_cast<size_t>(id)] -= static_cast<float>(std::min(penalty, kMost));
  }
}

/// Rules out what would complete an n-gram for the second time.
void forbid_repeated_ngrams(std::span<float> logits, std::span<const int64_t> tokens, size_t size) {
  if (tokens.size() < size) {
    return;
  }
  const auto last = tokens.last(size - 1);
  for (size_t i = 0; i + size <= tokens.size(); ++i) {
    if (std::equal(last.begin(), last.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i))) {
      logits[static_cast<size_t>(tokens[i + size - 1])] = kRuledOut;
    }
  }
}

}  // namespace

bool changes_logits(const Sampling& sampling) {
  return !sampling.logit_bias.empty() || sampling.repetition_penalty != 1.0 ||
         sampling.frequency_penalty != 0.0 || sampling.presence_penalty != 0.0 ||
         sampling.dry_multiplier > 0.0 || sampling.no_repeat_ngram_size > 0;
}

void process_logits(std::span<float> logits, const std::vector<int64_t>& tokens,
                    size_t prompt_length, const Sampling& sampling) {
  for (const auto& [id, bias] : sampling.logit_bias) {
    logits[static_cast<size_t>(id)] += bias;
  }
  if (sampling.repetition_penalty != 1.0) {
    penalise_repetition(logits, tokens, sampling.repetition_penalty);
  }
  const std::span<const int64_t> all(tokens);
  if (sampling.frequency_penalty != 0.0 || sampling.presence_penalty != 0.0) {
    penalise_generated(logits, all.subspan(std::min(prompt_length, all.size())), sampling);
  }
  if (sampling.dry_multiplier > 0.0) {
    penalise_dry(logits, all, sampling);
  }
  if (sampling.no_repeat_ngram_size > 0) {
    forbid_repeated_ngrams(logits, all, static_cast<size_t>(sampling.no_repeat_ngram_size));
  }
}

const std::vector<std::string>& default_dry_breakers() {
  static const std::vector<std::string> kBreakers{"\n", ":", "\"", "*"};
  return kBreakers;
}

std::vector<int64_t> tokens_containing(const Tokenizer& tokenizer,
                                       const std::vector<std::string>& breakers) {
  const std::vector<std::string> texts = text::token_bytes(tokenizer);
  std::vector<int64_t> ids;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (std::any_of(breakers.begin(), breakers.end(), [&](const std::string& breaker) {
          return !breaker.empty() && texts[id].find(breaker) != std::string::npos;
        })) {
      ids.push_back(static_cast<int64_t>(id));
    }
  }
  return ids;
}

}  // namespace heed
