#include "kernels/attention_backward.h"

#include <vector>

#include "base/per_thread.h"
#include "kernels/thread_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_backward-inl.h"
#include "kernels/attention_dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// A tile of queries in the backward pass, in the layouts that the products read.
template <class T>
struct BackwardTile {
  QueryTile<T> queries;
  int64_t key;               // the tile of keys that comes next
  int64_t end;               // of the keys that some row may see
  T* packed = nullptr;       // [depth, 64]: queries times scale·log2(e)
  T* rows = nullptr;         // [64, padded depth]: queries times scale
  T* dq = nullptr;           // [depth, 64]
  T* packed_dout = nullptr;  // [value depth, 64]: output gradient times inverse_sum
  T* rows_dout = nullptr;    // [64, padded value depth]: the same
  T* max = nullptr;          // [64]
  T* delta = nullptr;        // [64]: Σ out · dout, times inverse_sum

  explicit BackwardTile(const QueryTile<T>& of)
      : queries(of), key(of.first_key()), end(of.end_key()) {}
};

/// Working memory of some tiles of queries and of the pair of tiles that is computed.
template <class T>
struct BackwardBuffers {
  std::vector<BackwardTile<T>> tiles;
  T* s;       // [64, 64]: scores, then weights times sum
  T* ds;      // [64, 64]: gradient of the weights, then of the scores
  T* extra;   // [64, 64]: dropout's factors
  T* slope;   // [64, 64]: the soft-cap's derivative
  T* scores;  // [64, 64]: kept where some pair is hidden
  T* clean;   // [64, padded depth]: keys without poisoned rows

  BackwardBuffers(const AttentionProblem<T>& p, int64_t b, int64_t h, int64_t first, int64_t last) {
    thread_local PerThread<ThreadScratch> scratch;
    const size_t square = kQueryTile * kKeyTile;
    const size_t depth = padded(p.depth) * kQueryTile;
    const size_t value_depth = padded(p.value_depth) * kQueryTile;
    const auto count = static_cast<size_t>(last - first);
    T* next = scratch.get().reserve<T>(count * (3 * depth + 2 * value_depth + 2 * kQueryTile) +
                                       5 * square + depth);
    const auto take = [&next](size_t wanted) {
      T* taken = next;
      next += wanted;
      return taken;
    };
    tiles.reserve(count);
    for (int64_t tile = first; tile < last; ++tile) {
      BackwardTile<T>& mine = tiles.emplace_back(QueryTile<T>(p, b, h, tile));
      mine.packed = take(depth);
      mine.rows = take(depth);
      mine.dq = take(depth);
      mine.packed_dout = take(value_depth);
      mine.rows_dout = take(value_depth);
      mine.max = take(kQueryTile);
      mine.delta = take(kQueryTile);
    }
    s = take(square);
    ds = take(square);
    extra = take(square);
    slope = take(square);
    scores = take(square);
    clean = take(depth);
  }
};

/// Brings queries and output gradients of the tile into the layouts that the products read.
template <class T>
void load_queries(const BackwardPass<T>& pass, BackwardTile<T>& work) {
  const AttentionProblem<T>& p = pass.problem;
  const QueryTile<T>& queries = work.queries;
  const T* q = p.q.at(queries.b, queries.h, queries.row);
  pack_transposed(q, p.q.row, queries.rows, queries.width, p.depth, p.scale * kLog2e, work.packed);
  const size_t depth = padded(p.depth);
  const size_t value_depth = padded(p.value_depth);
  std::fill_n(work.rows, depth * static_cast<size_t>(queries.width), T{0});
  std::fill_n(work.rows_dout, value_depth * static_cast<size_t>(queries.width), T{0});
  const int64_t at = (queries.b * p.heads + queries.h) * p.queries + queries.row;
  const T scale = static_cast<T>(p.scale);
  for (int64_t i = 0; i < queries.width; ++i) {
    work.max[i] = 0;
    work.delta[i] = 0;
    if (i >= queries.rows || pass.stats.inverse_sum[at + i] == 0) {
      continue;  // a row that sees no key: its gradient stays zero whatever dout holds
    }
    const T inverse = pass.stats.inverse_sum[at + i];
    const T* out = pass.out.at(queries.b, queries.h, queries.row + i);
    const T* dout = pass.dout.at(queries.b, queries.h, queries.row + i);
    T* rows = work.rows + static_cast<size_t>(i) * depth;
    T* rows_dout = work.rows_dout + static_cast<size_t>(i) * value_depth;
    for (int64_t c = 0; c < p.depth; ++c) {
      rows[c] = q[i * p.q.row + c] * scale;
    }
    const hn::ScalableTag<T> d;
    auto delta = hn::Zero(d);
    int64_t c = 0;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; c + lanes <= p.value_depth; c += lanes) {
      delta = hn::MulAdd(hn::LoadU(d, out + c), hn::LoadU(d, dout + c), delta);
    }
    T total = sum_lanes(d, delta);
    for (; c < p.value_depth; ++c) {
      total += out[c] * dout[c];
    }
    for (c = 0; c < p.value_depth; ++c) {
      rows_dout[c] = dout[c] * inverse;
    }
    work.max[i] = pass.stats.max[at + i];
    work.delta[i] = total * inverse;
  }
  pack_transposed(work.rows_dout, static_cast<int64_t>(value_depth), queries.width, queries.width,
                  p.value_depth, 1.0, work.packed_dout);
  std::fill_n(work.dq, static_cast<size_t>(p.depth * kQueryTile), T{0});
}

/// s: scores -> weights · sum, as dropout leaves them; ds: gradient of those -> gradient of scores.
template <class T>
void softmax_gradient(const BackwardTile<T>& mine, const KeyTile& tile, BackwardBuffers<T>& work) {
  const QueryTile<T>& queries = mine.queries;
  const AttentionProblem<T>& p = queries.problem;
  const hn::ScalableTag<T> d;
  const bool drop = p.dropout > 0;
  const bool capped = p.softcap > 0;
  for (int64_t j = 0; j < tile.count; ++j) {
    for (size_t i = 0; i < static_cast<size_t>(queries.width); i += hn::Lanes(d)) {
      const size_t at = static_cast<size_t>(j) * kQueryTile + i;
      const auto score = hn::Load(d, work.s + at);
      // Recomputed scores are the forward pass' own, so none lies above the maximum.
      auto weight = exp2_nonpositive(d, hn::Sub(score, hn::Load(d, mine.max + i)));
      auto gradient = hn::Load(d, work.ds + at);
      if (drop) {
        gradient = hn::Mul(gradient, hn::Load(d, work.extra + at));
      }
      gradient = hn::Mul(weight, hn::Sub(gradient, hn::Load(d, mine.delta + i)));
      if (drop) {
        weight = hn::Mul(weight, hn::Load(d, work.extra + at));
      }
      auto capped_gradient = gradient;
      if (capped) {
        capped_gradient = hn::Mul(gradient, hn::Load(d, work.slope + at));
      }
      if (tile.some_hidden) {  // a hidden pair's product may be anything, NaN included
        const auto hidden = hn::Eq(score, hn::Set(d, -std::numeric_limits<T>::infinity()));
        gradient = hn::IfThenZeroElse(hidden, gradient);
        capped_gradient = hn::IfThenZeroElse(hidden, capped_gradient);
      }
      if (capped) {
        hn::Store(capped_gradient, d, work.slope + at);
      }
      hn::Store(weight, d, work.s + at);
      hn::Store(gradient, d, work.ds + at);
    }
  }
}

template <class T>
void backward_key_tile(const BackwardPass<T>& pass, BackwardTile<T>& mine, const KeyTile& tile,
                       BackwardBuffers<T>& work) {
  const AttentionProblem<T>& p = pass.problem;
  const QueryTile<T>& queries = mine.queries;
  const int64_t kv_head = p.kv_head(queries.h);
  const T* k = p.k.at(queries.b, kv_head, tile.key);
  const T* v = p.v.at(queries.b, kv_head, tile.key);
  const auto k_stride = static_cast<size_t>(p.k.row);
  score_tile(queries, tile, mine.packed, KeyRows<T>{k, k_stride}, work.s, work.slope);
  if (tile.some_hidden) {
    keep_scores(work.s, tile.count, work.scores);
  }
  pair_products(queries, tile, KeyRows<T>{v, static_cast<size_t>(p.v.row)}, mine.packed_dout,
                p.value_depth, work.ds);
  if (p.dropout > 0) {
    dropout_tile(queries, tile, work.extra);
  }
  softmax_gradient(mine, tile, work);
  if (pass.dbias.data != nullptr) {
    add_bias_gradient(queries, tile, pass.dbias, work.ds);
  }
  const T* ds = p.softcap > 0 ? work.slope : work.ds;
  add_to_keys(queries, tile, work.s, size_t{kQueryTile}, mine.rows_dout,
              KeyGradient<T>{pass.dv.at(queries.b, kv_head, tile.key), pass.dv.row, p.value_depth});
  add_to_keys(queries, tile, ds, size_t{kQueryTile}, mine.rows,
              KeyGradient<T>{pass.dk.at(queries.b, kv_head, tile.key), pass.dk.row, p.depth});
  PoisonedRows<T> poisoned;
  size_t clean_stride = k_stride;
  const T* clean =
      tile.some_hidden ? poisoned.clean(k, &clean_stride, tile.count, p.depth, work.clean) : k;
  add_weighted<Start::add>(queries, tile, KeyRows<T>{clean, clean_stride}, ds, p.depth,
                           static_cast<const T*>(nullptr), mine.dq);
  poisoned.add(k, k_stride, p.depth, ds, work.scores, queries.rows, mine.dq);
}

template <class T>
void backward_query_tiles(const BackwardPass<T>& pass, int64_t b, int64_t h, int64_t first,
                          int64_t last) {
  const AttentionProblem<T>& p = pass.problem;
  BackwardBuffers<T> work(p, b, h, first, last);
  for (BackwardTile<T>& mine : work.tiles) {
    load_queries(pass, mine);
  }
  each_pair_of_tiles(p, work.tiles, [&](BackwardTile<T>& mine, const KeyTile& tile) {
    backward_key_tile(pass, mine, tile, work);
  });
  for (const BackwardTile<T>& mine : work.tiles) {
    transpose_scaled(mine.dq, size_t{kQueryTile}, static_cast<size_t>(p.depth),
                     static_cast<size_t>(mine.queries.rows), static_cast<T>(p.scale),
                     pass.dq.at(b, h, mine.queries.row), static_cast<size_t>(pass.dq.row));
  }
}

void backward_f32(const BackwardPass<float>& pass, int64_t b, int64_t h, int64_t first,
                  int64_t last) {
  backward_query_tiles(pass, b, h, first, last);
}
void backward_f64(const BackwardPass<double>& pass, int64_t b, int64_t h, int64_t first,
                  int64_t last) {
  backward_query_tiles(pass, b, h, first, last);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);

void attention_backward_tiles(const BackwardPass<float>& pass, int64_t b, int64_t h, int64_t first,
                              int64_t last) {
  HWY_DYNAMIC_DISPATCH(backward_f32)(pass, b, h, first, last);
}
void attention_backward_tiles(const BackwardPass<double>& pass, int64_t b, int64_t h, int64_t first,
                              int64_t last) {
  HWY_DYNAMIC_DISPATCH(backward_f64)(pass, b, h, first, last);
}

}  // namespace heed::kernels
#endif
