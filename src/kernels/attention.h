#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "heed/runtime.h"
#include "kernels/types.h"

namespace heed::kernels {

/// A [batch, head, row, column] array whose columns are contiguous; strides in elements.
template <class T>
struct HeadsView {
  T* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;

  T* at(int64_t b, int64_t h, int64_t r) const { return data + b * batch + h * head + r * row; }
};

/// An array over scores [batch, head, query, key]; stride 0 where it is broadcast.
template <class T>
struct ScoreView {
  T* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t query = 0;
  int64_t key = 0;

  T* at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return data + b * batch + h * head + i * query + j * key;
  }
};

/// No limit on a side of the visible range; adding any position to it cannot overflow.
inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

/// One attention call on raw memory. Query i may see the keys i + first … i + last, and the keys
/// before `prefix`.
template <class T>
struct AttentionProblem {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t depth = 0;        // of q and k
  int64_t value_depth = 0;  // of v and the output
  HeadsView<const T> q;
  HeadsView<const T> k;
  HeadsView<const T> v;
  Element stored = kElementOf<T>;        // of k and v in memory; f16, bf16, q8_0 where T is float
  ScoreView<const uint8_t> keep;         // no data: all
  ScoreView<const uint8_t> key_padding;  // head and query strides are 0
  ScoreView<const Compute<T>> bias;
  double scale = 1.0;
  double softcap = 0.0;
  int64_t first = -kUnlimited;
  int64_t last = kUnlimited;
  int64_t prefix = 0;
  double dropout = 0.0;
  RandomKey random;

  int64_t kv_head(int64_t head) const { return head / (heads / kv_heads); }

  /// Key heads whose work together is worth handing to another thread.
  int64_t kv_heads_together() const {
    constexpr int64_t kWork = 16384;  // multiplications: some microseconds
    const int64_t work = heads / kv_heads * queries * keys * (depth + value_depth);
    return std::max<int64_t>(1, kWork / std::max<int64_t>(1, work));
  }
};

/// What is kept of each row's softmax, arrays [batch, head, query]: weights are
/// exp2(score - max) * inverse_sum with scores in units of log2. A row that sees no key has max 0
/// and inverse_sum 0.
template <class C>
struct RowStats {
  C* max = nullptr;
  C* inverse_sum = nullptr;
};

/// Tiles of 64 queries by 64 keys with an online softmax. T: float, double, Half, BFloat16.
template <class T>
void attention_forward(const AttentionProblem<T>& problem, HeadsView<T> out,
                       RowStats<Compute<T>> stats);

/// Gradients; all are written, none is read. dbias has the bias' own strides (0 where broadcast)
/// and must be zero on entry; no data: not wanted.
template <class T>
struct AttentionGradients {
  HeadsView<T> dq;
  HeadsView<T> dk;
  HeadsView<T> dv;
  ScoreView<Compute<T>> dbias;
};
/// T: float, double, and where uses_bf16_instructions() BFloat16, with sums in f32.
template <class T>
void attention_backward(const AttentionProblem<T>& problem, HeadsView<const T> out,
                        HeadsView<const T> dout, RowStats<const Compute<T>> stats,
                        const AttentionGradients<T>& gradients);

/// Rows and keys of one head.
struct WeightRange {
  int64_t b = 0;
  int64_t h = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;

  int64_t rows() const { return row_end - row_begin; }
  int64_t keys() const { return key_end - key_begin; }
};

/// Weights before dropout, [range.rows(), range.keys()], from the statistics of the forward pass:
/// what attention_forward used, to a rounding.
template <class T>
void attention_weights(const AttentionProblem<T>& problem, RowStats<const Compute<T>> stats,
                       const WeightRange& range, Compute<T>* weights);

/// Factors of dropout, 0 or 1/(1-p), for one row's keys [0, keys): what every kernel applies.
void attention_dropout_row(RandomKey random, double p, int64_t batch_head, int64_t row,
                           int64_t keys, double* factors);

}  // namespace heed::kernels
