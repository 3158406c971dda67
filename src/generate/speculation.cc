#include "generate/speculation.h"

#include <algorithm>

#include "base/check.h"
#include "generate/prefill.h"
#include "generate/prefixes.h"
#include "generate/sampling.h"

namespace heed {
namespace {

constexpr int64_t kLongestMatch = 8;
constexpr int64_t kShortestMatch = 2;
constexpr int64_t kFewest = 2;  // guesses

}  // namespace

std::vector<int64_t> look_up(const std::vector<int64_t>& tokens, int64_t longest, int64_t most) {
  const auto count = static_cast<int64_t>(tokens.size());
  int64_t best = 0;    // length of the match
  int64_t follow = 0;  // first token after it
  for (int64_t end = count - 1; end >= kShortestMatch && best < longest; --end) {
    int64_t length = 0;
    while (length < longest && length < end &&
           tokens[static_cast<size_t>(end - 1 - length)] ==
               tokens[static_cast<size_t>(count - 1 - length)]) {
      ++length;
    }
    if (length > best) {
      best = length;
      follow = end;
    }
  }
  if (best < kShortestMatch) {
    return {};
  }
  const auto begin = tokens.begin() + follow;
  return {begin, begin + std::min(most, count - follow)};
}

Scheduler::Drafter::Drafter(const Model& target, Speculation given)
    : model(target), options(std::move(given)) {
  if (options.draft) {
    check_data(options.draft->vocab_size() == model.vocab_size(), "draft model",
               "it has {} tokens, the model {}; both must use the same tokenizer",
               options.draft->vocab_size(), model.vocab_size());
    check_data(options.draft->kind() == ModelKind::decoder, "draft model",
               "a {} is no decoder, which it must be", options.draft->model_type());
  }
}

std::vector<int64_t> Scheduler::Drafter::ask_draft(const Request& request,
                                                   const std::vector<int64_t>& tokens,
                                                   int64_t generated, int64_t most,
                                                   State& state) const {
  const NoGrad no_grad;
  const Model& draft = *options.draft;
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t context = draft.context_length();
  most = context > 0 ? std::min(most, context - count) : most;
  if (most <= 0) {
    return {};
  }
  if (state.cache.self.empty()) {
    state.cache = draft.new_cache(count + request.max_tokens - generated + 1);
  }
  // The last token is always read: its logits are wanted.
  const int64_t same = common_prefix(state.fed, tokens, count - 1);
  if (same < state.cache.length) {
    state.cache.truncate(same);
  }
  std::vector<int64_t> all = tokens;
  Tensor rows;
  for (int64_t begin = same; begin < count; begin += kPrefillChunk) {
    rows = read_tokens(draft, all, begin, std::min(count, begin + kPrefillChunk), {}, state.cache);
  }
  MirostatState mirostat(request.sampling);
  std::vector<int64_t> guesses;
  while (true) {
    const Tensor logits = draft.logits(slice(rows, 0, rows.size(0) - 1, rows.size(0))).contiguous();
    const std::span<const float> values(logits.data<float>(), static_cast<size_t>(logits.size(1)));
    // With the random number by which the model's own logits will be sampled.
    guesses.push_back(pick_token(values, request.sampling, request.stream,
                                 static_cast<uint64_t>(generated) + guesses.size(), mirostat));
    const int64_t id = guesses.back();
    const bool ends = std::find(request.end.begin(), request.end.end(), id) != request.end.end();
    if (ends || static_cast<int64_t>(guesses.size()) >= most) {
      break;
    }
    all.push_back(id);
    const auto length = static_cast<int64_t>(all.size());
    rows = read_tokens(draft, all, length - 1, length, {}, state.cache);
  }
  state.fed = std::move(all);
  return guesses;
}

std::vector<int64_t> Scheduler::Drafter::guess(const Request& request,
                                               const std::vector<int64_t>& tokens,
                                               int64_t generated, int64_t most,
                                               State& state) const {
  most = std::min(most, state.wanted);
  if (most <= 0) {
    return {};
  }
  if (options.lookup) {
    std::vector<int64_t> found = look_up(tokens, kLongestMatch, most);
    if (!found.empty() || !options.draft) {
      return found;
    }
  }
  return options.draft ? ask_draft(request, tokens, generated, most, state)
                       : std::vector<int64_t>();
}

void Scheduler::Drafter::learn(int64_t guessed, int64_t accepted, State& state) const {
  if (guessed > 0) {
    state.wanted = accepted == guessed ? 2 * state.wanted : accepted + kFewest;
    state.wanted = std::clamp<int64_t>(state.wanted, kFewest, options.most);
  }
}

}  // namespace heed
