#include "base/parallel.h"
#include "base/per_thread.h"
#include "kernels/attention.h"
#include "kernels/thread_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_weights.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Weights of the rows and keys of one query tile that lie in the wanted ranges.
template <class T, class C>
void weights_tile(const AttentionProblem<T>& p, RowStats<const C> stats, const WeightRange& range,
                  int64_t query_tile, C* weights) {
  const auto [b, h, row_begin, row_end, key_begin, key_end] = range;
  const QueryTile<T> queries(p, b, h, query_tile);
  thread_local PerThread<ThreadScratch> scratch;
  const auto depth = static_cast<size_t>(p.depth) * kQueryTile;
  C* packed = scratch.get().reserve<C>(2 * depth + kQueryTile * kKeyTile);
  C* buffer = packed + depth;
  C* s = buffer + depth;
  pack_transposed(p.q.at(b, h, queries.row), p.q.row, queries.rows, queries.width, p.depth,
                  p.scale * kLog2e, packed);
  const int64_t end = std::min(queries.end_key(), key_end);
  const int64_t from = std::max(row_begin, queries.row);
  const int64_t to = std::min(row_end, queries.row + queries.rows);
  std::fill_n(weights + (from - row_begin) * range.keys(), (to - from) * range.keys(), C{0});
  const hn::ScalableTag<C> d;
  for (int64_t key = queries.first_key(); key < end; key = queries.next_key(key)) {
    if (key + kKeyTile <= key_begin) {
      continue;
    }
    const KeyTile tile = key_tile(queries, key, end);
    if (tile.all_hidden) {
      continue;
    }
    size_t stride = 0;
    const C* k = compute_rows(p, p.k, {b, p.kv_head(h), key, tile.count, p.depth}, buffer, &stride);
    score_tile(queries, tile, packed, KeyRows<C>{k, stride}, s, static_cast<C*>(nullptr));
    for (int64_t row = from; row < to; ++row) {
      const int64_t at = (b * p.heads + h) * p.queries + row;
      HWY_ALIGN C line[kKeyTile];
      for (int64_t j = 0; j < kKeyTile; ++j) {
        line[j] = j < tile.count ? s[j * kQueryTile + row - queries.row] - stats.max[at] : C{0};
      }
      for (size_t j = 0; j < kKeyTile; j += hn::Lanes(d)) {
        hn::Store(
            hn::Mul(exp2_nonpositive(d, hn::Load(d, line + j)), hn::Set(d, stats.inverse_sum[at])),
            d, line + j);
      }
      C* out = weights + (row - row_begin) * (key_end - key_begin) - key_begin;
      for (int64_t j = std::max(key, key_begin); j < key + tile.count; ++j) {
        out[j] = line[j - key];
      }
    }
  }
}

#define HEED_WEIGHTS(NAME, TYPE)                                                    \
  void NAME(const AttentionProblem<TYPE>& p, RowStats<const Compute<TYPE>> stats,   \
            const WeightRange& range, int64_t query_tile, Compute<TYPE>* weights) { \
    weights_tile(p, stats, range, query_tile, weights);                             \
  }
HEED_WEIGHTS(weights_f32, float)
HEED_WEIGHTS(weights_f64, double)
HEED_WEIGHTS(weights_f16, Half)
HEED_WEIGHTS(weights_bf16, BFloat16)
#undef HEED_WEIGHTS

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(weights_f32);
HWY_EXPORT(weights_f64);
HWY_EXPORT(weights_f16);
HWY_EXPORT(weights_bf16);

template <class T>
void attention_weights(const AttentionProblem<T>& problem, RowStats<const Compute<T>> stats,
                       const WeightRange& range, Compute<T>* weights) {
  constexpr int64_t kTile = 64;
  if (range.rows() <= 0 || range.keys() <= 0) {
    return;
  }
  const int64_t first = range.row_begin / kTile;
  parallel_for((range.row_end - 1) / kTile + 1 - first, [&](int64_t task) {
    const int64_t tile = first + task;
    if constexpr (std::is_same_v<T, float>) {
      HWY_DYNAMIC_DISPATCH(weights_f32)(problem, stats, range, tile, weights);
    } else if constexpr (std::is_same_v<T, double>) {
      HWY_DYNAMIC_DISPATCH(weights_f64)(problem, stats, range, tile, weights);
    } else if constexpr (std::is_same_v<T, Half>) {
      HWY_DYNAMIC_DISPATCH(weights_f16)(problem, stats, range, tile, weights);
    } else {
      HWY_DYNAMIC_DISPATCH(weights_bf16)(problem, stats, range, tile, weights);
    }
  });
}
template void attention_weights(const AttentionProblem<float>&, RowStats<const float>,
                                const WeightRange&, float*);
template void attention_weights(const AttentionProblem<double>&, RowStats<const double>,
                                const WeightRange&, double*);
template void attention_weights(const AttentionProblem<Half>&, RowStats<const float>,
                                const WeightRange&, float*);
template void attention_weights(const AttentionProblem<BFloat16>&, RowStats<const float>,
                                const WeightRange&, float*);

}  // namespace heed::kernels
#endif
