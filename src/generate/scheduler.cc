#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/parallel.h"
#include "generate/prefill.h"
#include "generate/prefixes.h"
#include "generate/sampling.h"
#include "generate/scheduler_sequence.h"
#include "generate/speculation.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "kernels/softmax.h"
#include "models/rope.h"

namespace heed {

Scheduler::Scheduler(const Model& model, int64_t max_batch)
    : model_(model), max_batch_(max_batch), long_from_(rotary_long_from(model.config())) {
  check(max_batch >= 1, "scheduler", "a batch of {} sequences", max_batch);
}

Scheduler::~Scheduler() = default;

void Scheduler::add(Request request, std::function<void(FinishReason)> on_finish) {
  request.sampling.check();
  check(request.max_tokens >= 0, "generate", "{} tokens to generate", request.max_tokens);
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    if (id >= model_.vocab_size()) {
      fail(ErrorKind::usage, "logit_bias", "{} is no token id: the model has {} tokens", id,
           model_.vocab_size());
    }
  }
  waiting_.push_back(std::make_unique<Sequence>(std::move(request), std::move(on_finish)));
}

/// The likeliest tokens before any filter, best first.
static std::vector<std::pair<int64_t, double>> likeliest(const float* logits, int64_t vocabulary,
                                                         int64_t most) {
  std::vector<int64_t> ids(static_cast<size_t>(vocabulary));
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min(most, vocabulary);
  std::partial_sort(ids.begin(), end, ids.end(), [&](int64_t a, int64_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  const double normaliser = kernels::log_sum_exp(logits, vocabulary);
  std::vector<std::pair<int64_t, double>> top;
  for (auto id = ids.begin(); id != end; ++id) {
    top.emplace_back(*id, logits[*id] - normaliser);
  }
  return top;
}

/// Rules out what the sequence's grammar does not allow; false where nothing is left. Greedy
/// decoding takes the best token that is allowed, which is found without looking at all of them.
bool Scheduler::constrain(std::span<float> logits, Sequence& sequence) {
  const std::vector<int64_t>& end = sequence.request.end;
  constexpr int kTries = 8;
  for (int i = 0; is_greedy(sequence.request.sampling) && i < kTries; ++i) {
    const int64_t best = best_token(logits);
    float& logit = logits[static_cast<size_t>(best)];
    const bool is_end = std::find(end.begin(), end.end(), best) != end.end();
    if (std::isfinite(logit) &&
        (is_end ? sequence.matcher->may_end() : sequence.matcher->allows(best))) {
      return true;
    }
    logit = -std::numeric_limits<float>::infinity();
  }
  return sequence.matcher->mask(logits, end);
}

/// The next token from a row of logits; none where no more are wanted or a grammar allows none.
std::optional<SampledToken> Scheduler::choose(Sequence& sequence, const Tensor& logits,
                                              int64_t row) const {
  const Request& request = sequence.request;
  if (sequence.generated >= request.max_tokens) {
    return std::nullopt;
  }
  const int64_t vocabulary = logits.size(1);
  const float* raw = logits.data<float>() + row * vocabulary;
  const double normaliser = kernels::log_sum_exp(raw, vocabulary);
  check(std::isfinite(normaliser), "generate", "the model's logits are not finite");
  std::span<const float> values(raw, static_cast<size_t>(vocabulary));
  const int64_t forced = forced_token(request, sequence.generated, request.max_tokens);
  std::vector<float> changed;
  if (forced >= 0 || !request.suppress_tokens.empty() || request.adjust_logits ||
      sequence.matcher || changes_logits(request.sampling)) {
    changed.assign(values.begin(), values.end());
    if (request.adjust_logits) {
      request.adjust_logits(changed, sequence.tokens);
    }
    process_logits(changed, sequence.tokens,
                   sequence.tokens.size() - static_cast<size_t>(sequence.generated),
                   request.sampling);
    restrict_choice(changed.data(), vocabulary, request, forced);
    if (sequence.matcher && forced < 0 && !constrain(changed, sequence)) {
      return std::nullopt;
    }
    values = changed;
  }
  const int64_t id = pick_token(values, request.sampling, request.stream,
                                static_cast<uint64_t>(sequence.generated), sequence.mirostat);
  if (sequence.matcher) {
    sequence.matcher->accept(id);  // no change for an end token
  }
  SampledToken choice{id, raw[id] - normaliser};
  if (request.top_log_probabilities > 0) {
    choice.top = likeliest(raw, vocabulary, request.top_log_probabilities);
  }
  return choice;
}

/// Hands a chosen token out.
void Scheduler::emit(Sequence& sequence, const std::optional<SampledToken>& choice) {
  const Request& request = sequence.request;
  if (!choice) {
    sequence.finish(sequence.generated < request.max_tokens ? FinishReason::stopped
                                                            : FinishReason::length);
    return;
  }
  ++sequence.generated;
  sequence.tokens.push_back(choice->id);
  const bool goes_on = !request.on_token || request.on_token(*choice);
  const bool ends =
      std::find(request.end.begin(), request.end.end(), choice->id) != request.end.end();
  const bool full = model_.decoder_context_length() > 0 &&
                    static_cast<int64_t>(sequence.tokens.size()) > model_.decoder_context_length();
  if (!goes_on) {
    sequence.finish(FinishReason::stopped);
  } else if (ends) {
    sequence.finish(FinishReason::end_token);
  } else if (sequence.generated >= request.max_tokens || full) {
    sequence.finish(FinishReason::length);
  }
}

void Scheduler::speculate(const Speculation& speculation) {
  drafter_ = speculation.on() && prefixes_last(model_) && !model_.kv_window().on()
                 ? std::make_unique<Drafter>(model_, speculation)
                 : nullptr;
}

/// Tokens that may follow the last one, for a pass that checks them.
std::vector<int64_t> Scheduler::guesses_for(Sequence& sequence) const {
  if (!drafter_ || !sequence.cache.state.empty()) {
    return {};
  }
  constexpr int64_t kRows = 64;  // of a pass, over all sequences
  const Request& request = sequence.request;
  int64_t most = std::min(request.max_tokens - sequence.generated - 1,
                          kRows / static_cast<int64_t>(active_.size()) - 1);
  if (model_.context_length() > 0) {
    most = std::min(most, model_.context_length() - static_cast<int64_t>(sequence.tokens.size()));
  }
  return drafter_->guess(request, sequence.tokens, sequence.generated, most, sequence.draft);
}

/// Goes on where the chosen tokens are those that were guessed: the logits after them are there.
void Scheduler::take_guessed(Sequence& sequence, const Tensor& logits, int64_t row,
                             std::span<const int64_t> guesses) {
  if (guesses.empty()) {
    return;
  }
  int64_t accepted = 0;
  for (const int64_t guess : guesses) {
    if (sequence.finished || sequence.tokens.back() != guess) {
      break;
    }
    ++accepted;
    emit(sequence, choose(sequence, logits, row + accepted));
  }
  sequence.cache.truncate(
      std::min(sequence.cache.length, static_cast<int64_t>(sequence.tokens.size()) - 1));
  const auto guessed = static_cast<int64_t>(guesses.size());
  drafter_->learn(guessed, accepted, sequence.draft);
  guessed_tokens_ += guessed;
  accepted_tokens_ += accepted;
}

void Scheduler::share_prefixes(int64_t bytes) {
  prefixes_ = bytes > 0 && prefixes_last(model_) ? std::make_unique<Prefixes>(bytes) : nullptr;
}

/// A sequence that has ended gives its slot up; what it has read may serve others.
void Scheduler::leave(Sequence& sequence) {
  const bool slid = model_.kv_window().on() && is_plain(sequence.cache);
  if (prefixes_ && (slid || can_share(sequence.cache))) {
    // Without capacity for tokens that were never generated.
    SequenceCache tight = model_.new_cache(sequence.cache.length);
    copy_prefix(sequence.cache, sequence.cache.length, tight);
    prefixes_->keep(std::move(sequence.tokens), std::move(tight));
  }
}

/// LongRoPE has other angles for a sequence that has become long: all of it is read again with
/// them, but for its last token, which the next pass reads.
void Scheduler::read_again(Sequence& sequence) const {
  const NoGrad no_grad;
  const auto count = static_cast<int64_t>(sequence.tokens.size()) - 1;
  SequenceCache cache =
      model_.new_cache(count + 1 + sequence.request.max_tokens - sequence.generated);
  for (int64_t begin = 0; begin < count; begin += kPrefillChunk) {
    read_tokens(model_, sequence.tokens, begin, std::min(count, begin + kPrefillChunk), {}, cache);
  }
  sequence.cache = std::move(cache);
}

void Scheduler::join() {
  while (!waiting_.empty() &&
         static_cast<int64_t>(active_.size() + starting_.size()) < max_batch_) {
    starting_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Scheduler::step() {
  join();
  read_prompts();
  if (active_.empty()) {
    return !starting_.empty() || !waiting_.empty();
  }
  std::vector<std::vector<int64_t>> tokens;  // of each sequence its last one and guesses
  std::vector<int64_t> rows;                 // of the last one's logits
  std::vector<SequenceCache*> caches;
  int64_t row = 0;
  for (const auto& sequence : active_) {
    if (long_from_ > 0 && sequence->cache.length == long_from_) {
      read_again(*sequence);
    }
    tokens.push_back({sequence->tokens.back()});
    const std::vector<int64_t> guesses = guesses_for(*sequence);
    tokens.back().insert(tokens.back().end(), guesses.begin(), guesses.end());
    rows.push_back(row);
    row += static_cast<int64_t>(tokens.back().size());
    caches.push_back(&sequence->cache);
  }
  const Tensor logits = extend_sequences(model_, tokens, std::move(caches));
  std::vector<std::optional<SampledToken>> choices(active_.size());
  parallel_for(static_cast<int64_t>(active_.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    choices[at] = choose(*active_[at], logits, rows[at]);
  });
  for (size_t i = 0; i < active_.size(); ++i) {
    emit(*active_[i], choices[i]);
    take_guessed(*active_[i], logits, rows[i], std::span(tokens[i]).subspan(1));
  }
  for (const auto& sequence : active_) {
    if (sequence->finished) {
      leave(*sequence);
    }
  }
  std::erase_if(active_, [](const auto& sequence) { return sequence->finished; });
  return !active_.empty() || !starting_.empty() || !waiting_.empty();
}

}  // namespace heed
