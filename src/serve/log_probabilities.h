#pragma once

#include "serve/text_run.h"

namespace heed::serve {

/// Tokens [from, to) of a choice as chat completions show them:
/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}.
void write_chat_log_probabilities(JsonWriter& json, const LoadedModel& model,
                                  const TextChoice& choice, size_t from, size_t to);

/// The same as /v1/completions shows them: {"tokens", "token_logprobs", "top_logprobs",
/// "text_offset"}. `offset` is the offset of the first token's text in the answer.
void write_completion_log_probabilities(JsonWriter& json, const LoadedModel& model,
                                        const TextChoice& choice, size_t from, size_t to,
                                        size_t offset);

/// What llama.cpp's server shows of tokens: ids, log-probabilities and the likeliest alternatives;
/// `probabilities`: probabilities in place of their logarithms.
void write_llama_probabilities(JsonWriter& json, const LoadedModel& model, const TextChoice& choice,
                               size_t from, size_t to, bool probabilities);

}  // namespace heed::serve
