#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/pipelines.h"

namespace heed {

/// Refuses a model that is for other work: "`fill-mask` needs an encoder with a masked-language
/// head; this folder holds a decoder (gpt2)."
void check_suits(bool suits, std::string_view task, std::string_view needs,
                 const LoadedModel& loaded);

/// Whether a text has nothing but white space.
bool is_blank(std::string_view text);

/// Tells the call's on_error about an input, or throws where there is none.
void report_error(const RunOptions& run, std::string_view task, size_t input,
                  const std::string& message);

/// Texts as tokens with what the model expects around them. An input that cannot be used is
/// reported and has no tokens.
struct TokenBatch {
  std::vector<std::vector<TokenId>> ids;
};
/// `max_length` is the most tokens of a text (0: no limit); longer ones are cut where `truncate`.
TokenBatch encode_inputs(const LoadedModel& loaded, const std::vector<std::string>& texts,
                         std::string_view task, int64_t max_length, bool truncate,
                         const RunOptions& run);
/// The most tokens that the model takes and the tokenizer's file asks for; 0: no limit.
int64_t max_input_length(const LoadedModel& loaded);

/// Calls fn with the indices of inputs that are computed together: those with a length above 0,
/// shortest first, at most run.batch_size at a time. Reports progress, and throws where the call is
/// stopped.
void for_each_batch(const std::vector<int64_t>& lengths, std::string_view task,
                    const RunOptions& run,
                    const std::function<void(const std::vector<size_t>&)>& fn);
std::vector<int64_t> lengths_of(const TokenBatch& batch);

/// The named inputs as one padded batch; padding is not computed.
ModelInput padded_input(const TokenBatch& batch, const std::vector<size_t>& indices);

}  // namespace heed
