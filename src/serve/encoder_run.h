#pragma once

#include <functional>
#include <vector>

#include "serve/routes.h"

namespace heed::serve {

/// A text, or a pair of texts, as an encoder reads it.
struct EncodedText {
  std::vector<TokenId> ids, type_ids;
};

/// Tokens of a text with those the model expects around it. Throws BadRequest that names `param`
/// where it has none or more than the model's context, unless `truncate`.
EncodedText encode_text(const LoadedModel& model, const std::string& text, const std::string& param,
                        bool truncate = false);
EncodedText encode_text_pair(const LoadedModel& model, const std::string& first,
                             const std::string& second, const std::string& param, bool truncate);

/// Runs texts through the call's model, batched with those of other requests. `on_output` gets each
/// text's index and its row of the model's output; `on_done`, after the last, the number of tokens
/// of all. Both run on the engine's thread.
void run_encoder(
    const CallPtr& call, std::vector<EncodedText> texts,
    std::function<void(size_t, const ModelOutput&, int64_t row, int64_t length)> on_output,
    std::function<void(int64_t tokens)> on_done);

/// The embedding of a row of an encoder's output: pooled as the model's folder says, of length 1.
std::vector<float> pooled_embedding(const LoadedModel& model, const ModelOutput& output,
                                    int64_t row, int64_t length);

}  // namespace heed::serve
