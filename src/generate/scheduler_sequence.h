#pragma once

#include <optional>

#include "generate/sampling.h"
#include "generate/speculation.h"
#include "heed/generate.h"

namespace heed {

/// A request with what has been read and generated for it.
struct Scheduler::Sequence {
  Sequence(Request request_in, std::function<void(FinishReason)> on_finish_in)
      : request(std::move(request_in)),
        on_finish(std::move(on_finish_in)),
        mirostat(request.sampling) {
    if (request.constraint) {
      matcher.emplace(request.constraint->matcher());
    }
  }

  Request request;
  std::function<void(FinishReason)> on_finish;
  SequenceCache cache;
  EncoderOutput memory;         // the encoder's result, while the prompt is read
  std::vector<int64_t> tokens;  // fed and chosen, the start token included
  MirostatState mirostat;
  std::optional<TokenMatcher> matcher;  // where the text must follow a grammar
  Drafter::State draft;
  int64_t generated = 0;
  int64_t shared = 0;  // tokens of the prompt that came from another sequence
  bool joins = false;  // its prompt may be read in one pass with others
  bool finished = false;

  bool is_cancelled() const { return request.cancelled && request.cancelled(); }

  void tell_progress() const {
    if (request.on_prompt) {
      request.on_prompt(cache.length, shared, static_cast<int64_t>(tokens.size()));
    }
  }

  void finish(FinishReason reason) {
    finished = true;
    if (on_finish) {
      on_finish(reason);
    }
  }
};

}  // namespace heed
