#pragma once

#include "heed/inspect.h"

namespace heed::explore {

/// What the scores of an attention are multiplied by.
double scale_of(const RecordedAttention& attention);
/// The head of keys and values that a head of queries reads.
int64_t key_head(const RecordedAttention& attention, int64_t head);
/// Part [rows, keys] of a bias or mask that is broadcast over the axes it has not.
Tensor broadcast_part(const Tensor& x, int64_t head, int64_t row_begin, int64_t row_end,
                      int64_t key_begin, int64_t key_end);

}  // namespace heed::explore
