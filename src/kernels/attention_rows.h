#pragma once

#include "kernels/attention.h"

namespace heed::kernels {

/// Up to this many rows (queries times heads that share keys) the kernel of attention_rows.cc is
/// the faster one. It knows no dropout.
inline constexpr int64_t kFewRows = 32;

/// attention_forward() for all queries of the heads that share the keys of head `kv`.
void attention_rows(const AttentionProblem<float>& problem, int64_t b, int64_t kv,
                    HeadsView<float> out, RowStats<float> stats);
void attention_rows(const AttentionProblem<double>& problem, int64_t b, int64_t kv,
                    HeadsView<double> out, RowStats<double> stats);
void attention_rows(const AttentionProblem<Half>& problem, int64_t b, int64_t kv,
                    HeadsView<Half> out, RowStats<float> stats);
void attention_rows(const AttentionProblem<BFloat16>& problem, int64_t b, int64_t kv,
                    HeadsView<BFloat16> out, RowStats<float> stats);

}  // namespace heed::kernels
