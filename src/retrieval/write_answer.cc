#include "retrieval/write_answer.h"

#include <algorithm>

namespace heed {

std::vector<int64_t> write_answer(const Model& model, const Tokenizer& tokenizer, Request request,
                                  const AskOptions& options, Answer& answer) {
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  apply_generation_tokens(model, request);
  std::vector<int64_t> ids;
  TextStream stream(tokenizer, options.stops);
  const auto emit = [&](const std::string& text) {
    answer.text += text;
    if (options.on_text && !text.empty()) {
      options.on_text(text);
    }
  };
  const std::vector<int64_t> end = request.end;
  request.on_token = [&](const SampledToken& token) {
    ids.push_back(token.id);
    if (std::find(end.begin(), end.end(), token.id) == end.end()) {
      emit(stream.push(token.id));
    }
    return !stream.stopped();
  };
  Scheduler scheduler(model, 1);
  scheduler.add(std::move(request), [&](FinishReason reason) {
    answer.finish = reason;
    emit(stream.finish());
  });
  scheduler.run();
  answer.answer_tokens = static_cast<int64_t>(ids.size());
  return ids;
}

}  // namespace heed
