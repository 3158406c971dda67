#include <algorithm>

#include "base/check.h"
#include "base/parallel.h"
#include "generate/prefill.h"
#include "generate/prefixes.h"
#include "generate/scheduler_sequence.h"

// How the scheduler reads prompts.

namespace heed {

/// The longest beginning of a sequence's tokens that another one has read.
Scheduler::Prefix Scheduler::best_prefix(const Sequence& sequence) const {
  Prefix best;
  if (!prefixes_ || !is_plain(sequence.cache)) {
    return best;
  }
  const auto look = [&](const std::vector<int64_t>& tokens, const SequenceCache& cache) {
    // The last token of the prompt is always read: its logits are wanted.
    const auto limit = std::min(cache.length, static_cast<int64_t>(sequence.tokens.size()) - 1);
    const int64_t common = common_prefix(tokens, sequence.tokens, limit);
    const bool usable = can_share(cache) || (is_plain(cache) && common == cache.length);
    if (common > best.length && usable) {
      best = {&cache, common};
    }
  };
  for (const auto& other : active_) {
    look(other->tokens, other->cache);
  }
  prefixes_->for_each(look);
  return best;
}

/// Takes what another sequence has read; false where one of `parts`, which are read in the pass to
/// come, begins like this sequence for longer: then it waits for that.
bool Scheduler::take_prefix(Sequence& sequence, const std::vector<PromptPart>& parts) {
  const Prefix best = best_prefix(sequence);
  const auto limit = static_cast<int64_t>(sequence.tokens.size()) - 1;
  for (const PromptPart& part : parts) {
    if (prefixes_ &&
        common_prefix(*part.tokens, sequence.tokens, limit) >= best.length + kLeastPrefix) {
      return false;
    }
  }
  if (best.length >= kLeastPrefix) {
    copy_prefix(*best.cache, best.length, sequence.cache);
    shared_tokens_ += best.length;
    sequence.shared = best.length;
  }
  sequence.tell_progress();
  return true;
}

/// Prepares a sequence whose prompt is to be read.
void Scheduler::start(Sequence& sequence) {
  sequence.tokens = start_tokens(model_, sequence.request);
  const auto count = static_cast<int64_t>(sequence.tokens.size());
  check(model_.decoder_context_length() == 0 || count <= model_.decoder_context_length(),
        "generate", "the prompt has {} tokens; the model's context is {}", count,
        model_.decoder_context_length());
  sequence.cache = model_.new_cache(count + sequence.request.max_tokens);
  sequence.memory = encode_request(model_, sequence.request);
  sequence.joins =
      prefixes_last(model_) && !sequence.memory.rows.defined() && !model_.kv_window().on();
}

/// The next parts of prompts for one pass of at most `budget` tokens, in the order of arrival. A
/// prompt that begins like one of them waits for the next pass, where it need not read that
/// beginning. Where the model has an encoder, a state, positions that depend on the length or a
/// sliding cache, a pass reads one prompt, always in the same chunks.
std::vector<PromptPart> Scheduler::next_parts(int64_t budget) {
  std::vector<PromptPart> parts;
  while (parts.size() < starting_.size()) {
    const auto next = starting_.begin() + static_cast<std::ptrdiff_t>(parts.size());
    Sequence& sequence = **next;
    if (sequence.is_cancelled()) {
      sequence.finish(FinishReason::stopped);
      starting_.erase(next);
      continue;
    }
    if (sequence.tokens.empty()) {
      start(sequence);
    }
    const bool joins = sequence.joins && can_share(sequence.cache);
    if (!parts.empty() && !joins) {
      break;
    }
    if (sequence.cache.length == 0 && !take_prefix(sequence, parts)) {
      break;
    }
    const int64_t begin = sequence.cache.length;
    const int64_t most = joins ? budget : prefill_chunk(model_);
    const int64_t end = std::min(static_cast<int64_t>(sequence.tokens.size()), begin + most);
    parts.push_back({&sequence.tokens, begin, end, &sequence.memory, &sequence.cache});
    budget -= end - begin;
    if (!joins || budget <= 0) {
      break;
    }
  }
  return parts;
}

/// Reads prompts in the order of their arrival, short ones together, long ones in chunks, so that
/// active sequences wait for one chunk at most.
void Scheduler::read_prompts() {
  int64_t budget = kPrefillChunk;
  while (budget > 0) {
    const std::vector<PromptPart> parts = next_parts(budget);
    if (parts.empty()) {
      return;
    }
    const Tensor rows = read_parts(model_, parts);
    std::vector<Tensor> last;  // the rows after which the prompts have been read
    int64_t row = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      row += parts[i].end - parts[i].begin;
      budget -= parts[i].end - parts[i].begin;
      starting_[i]->tell_progress();
      if (parts[i].end == static_cast<int64_t>(parts[i].tokens->size())) {
        last.push_back(slice(rows, 0, row - 1, row));
      }
    }
    if (!last.empty()) {
      begin_texts(last);
    }
  }
}

/// Chooses the first token of the first sequences that start, from the last rows of their prompts.
void Scheduler::begin_texts(const std::vector<Tensor>& rows) {
  const NoGrad no_grad;
  const Tensor logits = model_.logits(rows.size() == 1 ? rows[0] : concat(rows, 0));
  std::vector<std::optional<SampledToken>> choices(rows.size());
  parallel_for(static_cast<int64_t>(rows.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    choices[at] = choose(*starting_[at], logits, i);
  });
  for (const auto& choice : choices) {
    Sequence& sequence = *starting_.front();
    sequence.memory = {};
    emit(sequence, choice);
    if (sequence.finished) {
      leave(sequence);
    } else {
      active_.push_back(std::move(starting_.front()));
    }
    starting_.pop_front();
  }
}

}  // namespace heed
