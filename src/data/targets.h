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

}  // namespace heed
