#include "data/targets.h"

#include <algorithm>

namespace heed {
namespace {

int64_t cut_length(int64_t length, int64_t max_length) {
  return max_length > 0 ? std::min(length, max_length) : length;
}

bool ends_with(const TokenShard& shard, int64_t sequence, TokenId end) {
  const int64_t length = shard.length(sequence);
  return end >= 0 && length > 0 && shard.token(shard.begin(sequence) + length - 1) == end;
}

int64_t input_length(const TokenShard& shard, int64_t sequence, int64_t max_length) {
  return cut_length(shard.length(sequence), max_length);
}

}  // namespace

int64_t target_length(const TokenShard& shard, int64_t sequence, const SequenceTokens& tokens,
                      int64_t max_length) {
  const bool lacks_end = tokens.end >= 0 && !ends_with(shard, sequence, tokens.end);
  return cut_length(shard.length(sequence) + (lacks_end ? 1 : 0), max_length);
}

void fill_inputs(Batch& batch, const TokenShard& shard, const std::vector<int64_t>& sequences,
                 const SequenceTokens& tokens, int64_t max_length) {
  int64_t longest = 1;
  for (const int64_t sequence : sequences) {
    longest = std::max(longest, input_length(shard, sequence, max_length));
  }
  const auto count = static_cast<int64_t>(sequences.size());
  batch.rows = count;
  batch.input_ids = Tensor::full({count, longest}, tokens.padding, DType::i64);
  batch.attention_mask = Tensor::zeros({count, longest}, DType::i64);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sequence = sequences[static_cast<size_t>(row)];
    const int64_t length = input_length(shard, sequence, max_length);
    int64_t* ids = batch.input_ids.data<int64_t>() + row * longest;
    shard.copy(shard.begin(sequence), length, ids);
    if (length < shard.length(sequence) && ends_with(shard, sequence, tokens.end)) {
      ids[length - 1] = tokens.end;
    }
    std::fill_n(batch.attention_mask.data<int64_t>() + row * longest, length, 1);
  }
}

void fill_targets(Batch& batch, const TokenShard& shard, const std::vector<int64_t>& sequences,
                  const SequenceTokens& tokens, int64_t max_length) {
  int64_t longest = 1;
  for (const int64_t sequence : sequences) {
    longest = std::max(longest, target_length(shard, sequence, tokens, max_length));
  }
  const auto count = static_cast<int64_t>(sequences.size());
  batch.rows = count;
  batch.labels = Tensor::full({count, longest}, -100, DType::i64);
  batch.decoder_input_ids = Tensor::full({count, longest}, tokens.padding, DType::i64);
  batch.decoder_attention_mask = Tensor::zeros({count, longest}, DType::i64);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sequence = sequences[static_cast<size_t>(row)];
    const int64_t length = target_length(shard, sequence, tokens, max_length);
    int64_t* labels = batch.labels.data<int64_t>() + row * longest;
    int64_t* inputs = batch.decoder_input_ids.data<int64_t>() + row * longest;
    shard.copy(shard.begin(sequence), std::min(length, shard.length(sequence)), labels);
    if (tokens.end >= 0 && length > 0) {
      labels[length - 1] = tokens.end;
    }
    inputs[0] = tokens.start;
    std::copy_n(labels, std::max<int64_t>(length - 1, 0), inputs + 1);
    std::fill_n(batch.decoder_attention_mask.data<int64_t>() + row * longest, length, 1);
  }
}

Batch rank_rows(const Batch& whole, int64_t begin, int64_t end) {
  Batch batch = batch_rows(whole, begin, end);
  batch.global_targets = batch_rows(whole, 0, whole.rows).targets;
  return batch;
}

std::vector<int64_t> sequences_of(const std::vector<int64_t>& examples, int64_t per_example) {
  std::vector<int64_t> sequences;
  sequences.reserve(examples.size() * static_cast<size_t>(per_example));
  for (const int64_t example : examples) {
    for (int64_t i = 0; i < per_example; ++i) {
      sequences.push_back(example * per_example + i);
    }
  }
  return sequences;
}

}  // namespace heed
