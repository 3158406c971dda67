#include "retrieval/padded_texts.h"

#include <algorithm>

namespace heed {

PaddedTexts encode_texts(const Tokenizer& tokenizer, std::span<const std::string> texts,
                         int64_t max_tokens) {
  Tokenizer::BatchOptions options;
  if (max_tokens > 0) {
    options.truncation = Truncation{.max_length = max_tokens};
  }
  const std::vector<Encoding> encodings = tokenizer.encode_batch(texts, options);
  size_t longest = 1;
  for (const Encoding& encoding : encodings) {
    longest = std::max(longest, encoding.ids.size());
  }
  const auto count = static_cast<int64_t>(texts.size());
  const auto length = static_cast<int64_t>(longest);
  PaddedTexts batch;
  const TokenId padding = tokenizer.special().pad.value_or(0);
  batch.input_ids = Tensor::full({count, length}, padding, DType::i64);
  batch.attention_mask = Tensor::zeros({count, length}, DType::i64);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<TokenId>& ids = encodings[static_cast<size_t>(i)].ids;
    std::copy(ids.begin(), ids.end(), batch.input_ids.data<int64_t>() + i * length);
    std::fill_n(batch.attention_mask.data<int64_t>() + i * length, ids.size(), 1);
    batch.lengths.push_back(static_cast<int64_t>(ids.size()));
  }
  return batch;
}

}  // namespace heed
