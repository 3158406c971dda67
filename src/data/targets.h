#pragma once

#include <vector>

#include "heed/data.h"

namespace heed {

/// Length of a sequence with the end token, once cut.
int64_t target_length(const TokenShard& shard, int64_t sequence, const SequenceTokens& tokens,
                      int64_t max_length);

/// Sequences as input_ids and attention_mask [N, longest]. A cut sequence that ended in tokens.end
/// still does.
void fill_inputs(Batch& batch, const TokenShard& shard, const std::vector<int64_t>& sequences,
                 const SequenceTokens& tokens, int64_t max_length);

/// Sequences as decoder_input_ids, decoder_attention_mask and labels [N, longest].
void fill_targets(Batch& batch, const TokenShard& shard, const std::vector<int64_t>& sequences,
                  const SequenceTokens& tokens, int64_t max_length);

/// Rows [begin, end) of a batch, those of one rank, with the targets of all rows as global_targets.
Batch rank_rows(const Batch& whole, int64_t begin, int64_t end);

/// The sequences of examples that have `per_example` each, one behind the other.
std::vector<int64_t> sequences_of(const std::vector<int64_t>& examples, int64_t per_example);

}  // namespace heed
