#include <algorithm>

#include "base/check.h"
#include "base/parallel.h"
#include "generate/session.h"
#include "heed/generate.h"

namespace heed {

struct Scheduler::Sequence {
  Request request;
  std::function<void(FinishReason)> on_finish;
  SequenceCache cache;
  std::vector<int64_t> tokens;  // fed and chosen, the start token included
  int64_t generated = 0;
  bool finished = false;

  void finish(FinishReason reason) {
    finished = true;
    if (on_finish) {
      on_finish(reason);
    }
  }
};

Scheduler::Scheduler(const Model& model, int64_t max_batch) : model_(model), max_batch_(max_batch) {
  check(max_batch >= 1, "scheduler", "a batch of {} sequences", max_batch);
}

Scheduler::~Scheduler() = default;

void Scheduler::add(Request request, std::function<void(FinishReason)> on_finish) {
  request.sampling.check();
  check(request.max_tokens >= 0, "generate", "{} tokens to generate", request.max_tokens);
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  sequence->on_finish = std::move(on_finish);
  waiting_.push_back(std::move(sequence));
}

/// The next token from a row of logits; none where no more are wanted.
std::optional<SampledToken> Scheduler::choose(const Sequence& sequence, const Tensor& logits,
                                              int64_t row) const {
  const Request& request = sequence.request;
  if (sequence.generated >= request.max_tokens) {
    return std::nullopt;
  }
  const int64_t vocabulary = logits.size(1);
  const float* values = logits.data<float>() + row * vocabulary;
  const bool forced =
      request.forced_eos_token_id >= 0 && sequence.generated + 1 == request.max_tokens;
  std::vector<float> changed;
  if (forced || !request.never.empty()) {
    changed.assign(values, values + vocabulary);
    restrict_choice(changed.data(), vocabulary, request, forced);
    values = changed.data();
  }
  return sample_token(values, vocabulary, request.sampling, request.stream,
                      static_cast<uint64_t>(sequence.generated), sequence.tokens);
}

/// Hands a chosen token out.
void Scheduler::emit(Sequence& sequence, const std::optional<SampledToken>& choice) {
  const Request& request = sequence.request;
  if (!choice) {
    sequence.finish(FinishReason::length);
    return;
  }
  ++sequence.generated;
  sequence.tokens.push_back(choice->id);
  const bool goes_on = !request.on_token || request.on_token(*choice);
  const bool ends =
      std::find(request.end.begin(), request.end.end(), choice->id) != request.end.end();
  const bool full = model_.context_length() > 0 &&
                    static_cast<int64_t>(sequence.tokens.size()) > model_.context_length();
  if (!goes_on) {
    sequence.finish(FinishReason::stopped);
  } else if (ends) {
    sequence.finish(FinishReason::end_token);
  } else if (sequence.generated >= request.max_tokens || full) {
    sequence.finish(FinishReason::length);
  }
}

void Scheduler::join() {
  while (!waiting_.empty() && static_cast<int64_t>(active_.size()) < max_batch_) {
    std::unique_ptr<Sequence> sequence = std::move(waiting_.front());
    waiting_.pop_front();
    sequence->tokens = start_tokens(model_, sequence->request);
    const int64_t capacity =
        static_cast<int64_t>(sequence->tokens.size()) + sequence->request.max_tokens;
    const Tensor logits = start_sequence(model_, sequence->request, capacity, sequence->cache);
    emit(*sequence, choose(*sequence, logits, 0));
    if (!sequence->finished) {
      active_.push_back(std::move(sequence));
    }
  }
}

bool Scheduler::step() {
  join();
  if (active_.empty()) {
    return false;
  }
  std::vector<int64_t> tokens;
  std::vector<SequenceCache*> caches;
  for (const auto& sequence : active_) {
    tokens.push_back(sequence->tokens.back());
    caches.push_back(&sequence->cache);
  }
  const Tensor logits = continue_sequences(model_, tokens, std::move(caches));
  std::vector<std::optional<SampledToken>> choices(active_.size());
  parallel_for(static_cast<int64_t>(active_.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    choices[at] = choose(*active_[at], logits, i);
  });
  for (size_t i = 0; i < active_.size(); ++i) {
    emit(*active_[i], choices[i]);
  }
  std::erase_if(active_, [](const auto& sequence) { return sequence->finished; });
  return !active_.empty() || !waiting_.empty();
}

}  // namespace heed
