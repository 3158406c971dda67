#pragma once

#include "explore/trace.h"
#include "heed/inspect.h"

namespace heed::explore {

/// What the scores of an attention are multiplied by.
double scale_of(const RecordedAttention& attention);
/// The head of keys and values that a head of queries reads.
int64_t key_head(const RecordedAttention& attention, int64_t head);
/// Part [rows, keys] of a bias or mask that is broadcast over the axes it has not.
Tensor broadcast_part(const Tensor& x, int64_t head, int64_t row_begin, int64_t row_end,
                      int64_t key_begin, int64_t key_end);

// all_layers.cc: one map [queries, keys] for all layers of a kind, of up to 1,024 tokens.

/// Mean weights of the layers, each mixed half and half with the residual stream, multiplied.
Tensor rollout_of(Trace& trace, const std::string& kind);
/// What each key passes on to each query: weight times the norm of the value, over all heads of a
/// layer as a fraction, mean over the layers. A key that is attended to only because attention has
/// to go somewhere has a small value, and does not stand out.
Tensor contribution_of(Trace& trace, const std::string& kind);

}  // namespace heed::explore
