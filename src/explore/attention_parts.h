#pragma once

#include <span>

#include "explore/json.h"
#include "explore/trace.h"
#include "heed/inspect.h"

namespace heed::explore {

/// The attention that a request names; `head` is checked where it has one.
const RecordedAttention& asked_attention(Trace& trace, const Fields& fields,
                                         int64_t least_head = 0);

/// What the scores of an attention are multiplied by.
double scale_of(const RecordedAttention& attention);
/// The head of keys and values that a head of queries reads.
int64_t key_head(const RecordedAttention& attention, int64_t head);
/// What is added to the scaled scores of a part of a head, [rows, keys]; undefined where nothing
/// is.
Tensor bias_of(const RecordedAttention& attention, int64_t head, int64_t row_begin, int64_t row_end,
               int64_t key_begin, int64_t key_end);
/// Rows [begin, end) of one head of q, k, v or the output, as f32 [rows, head_dim].
Tensor head_rows(const Tensor& x, int64_t head, int64_t begin, int64_t end);
/// Weights [rows, keys] of a head, or the mean of all heads for -1, as the pass used them.
Tensor weights_of(const RecordedAttention& attention, int64_t head, int64_t row_begin,
                  int64_t row_end, int64_t key_begin, int64_t key_end);
/// Scaled scores with soft cap and bias, -inf where masked.
Tensor scores_of(const RecordedAttention& attention, int64_t head, int64_t row_begin,
                 int64_t row_end, int64_t key_begin, int64_t key_end);

// sampled_attention.cc: some rows of a long text, without those between them.

/// Whether any queries can be read without those between them: no tensor masks their keys.
bool can_be_sampled(const RecordedAttention& attention);
/// The keys that a query sees by position: [begin, end), and those before `prefix`.
struct SeenKeys {
  int64_t begin = 0, end = 0, prefix = 0;
};
SeenKeys seen_keys(const RecordedAttention& attention, int64_t query);
/// Weights [rows, all keys] of any rows of a head, each computed alone.
Tensor sampled_weights(const RecordedAttention& attention, int64_t head,
                       std::span<const int64_t> rows);
/// A square of a tile: its cells of `cell` x `cell` weights begin at these rows and keys.
struct TilePlace {
  int64_t row_begin, row_end, key_begin, key_end, cell;
};
/// The largest weight, score or weight times the norm of its value of every cell, over `per_cell`
/// evenly spaced queries of it and all its keys. `head` -1: of the mean of the heads (weights).
Tensor sampled_tile(const RecordedAttention& attention, const std::string& what, int64_t head,
                    const TilePlace& place, int64_t per_cell);

// all_layers.cc: one map [queries, keys] for all layers of a kind, of up to 1,024 tokens.

/// Mean weights of the layers, each mixed half and half with the residual stream, multiplied.
Tensor rollout_of(Trace& trace, const std::string& kind);
/// What each key passes on to each query: weight times the norm of the value, over all heads of a
/// layer as a fraction, mean over the layers. A key that is attended to only because attention has
/// to go somewhere has a small value, and does not stand out.
Tensor contribution_of(Trace& trace, const std::string& kind);

}  // namespace heed::explore
