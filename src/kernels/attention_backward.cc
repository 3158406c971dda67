#include "base/parallel.h"
#include "kernels/attention.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

inline size_t padded(int64_t columns) { return (static_cast<size_t>(columns) + 15) / 16 * 16; }

/// Working memory of one query tile on the way back.
template <class C>
struct BackwardBuffers {
  C* packed;       // [depth, 64]: queries times scale·log2(e)
  C* rows;         // [64, padded depth]: queries times scale
  C* packed_dout;  // [value depth, 64]: output gradient times inverse_sum
  C* rows_dout;    // [64, padded value depth]: the same
  C* dq;           // [depth, 64]
  C* s;            // [64, 64]: scores, then weights times sum
  C* ds;           // [64, 64]: gradient of the weights, then of the scores
  C* extra;        // [64, 64]: dropout's factors
  C* slope;        // [64, 64]: the soft-cap's derivative
  C* scores;       // [64, 64]: kept where some pair is hidden
  C* clean;        // [64, max depth]: keys without poisoned rows
  C* max;          // [64]
  C* delta;        // [64]: Σ out · dout, times inverse_sum

  template <class T>
  explicit BackwardBuffers(const AttentionProblem<T>& p) {
    thread_local Scratch scratch;
    const size_t square = kQueryTile * kKeyTile;
    const size_t depth = padded(p.depth) * kQueryTile;
    const size_t value_depth = padded(p.value_depth) * kQueryTile;
    C* next = scratch.reserve<C>(4 * depth + 2 * value_depth + 5 * square + 2 * kQueryTile);
    const auto take = [&next](size_t count) {
      C* taken = next;
      next += count;
      return taken;
    };
    packed = take(depth);
    rows = take(depth);
    dq = take(depth);
    clean = take(depth);
    packed_dout = take(value_depth);
    rows_dout = take(value_depth);
    s = take(square);
    ds = take(square);
    extra = take(square);
    slope = take(square);
    scores = take(square);
    max = take(kQueryTile);
    delta = take(kQueryTile);
  }
};

/// Brings queries and output gradients of the tile into the layouts that the products read.
template <class T>
void load_queries(const BackwardPass<T>& pass, const QueryTile<T>& queries,
                  BackwardBuffers<T>& work) {
  const AttentionProblem<T>& p = pass.problem;
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
void softmax_gradient(const QueryTile<T>& queries, const KeyTile& tile, BackwardBuffers<T>& work) {
  const AttentionProblem<T>& p = queries.problem;
  const hn::ScalableTag<T> d;
  const bool drop = p.dropout > 0;
  const bool capped = p.softcap > 0;
  for (int64_t j = 0; j < tile.count; ++j) {
    for (size_t i = 0; i < static_cast<size_t>(queries.width); i += hn::Lanes(d)) {
      const size_t at = static_cast<size_t>(j) * kQueryTile + i;
      const auto score = hn::Load(d, work.s + at);
      // Recomputed scores are the forward pass' own, so none lies above the maximum.
      auto weight = exp2_nonpositive(d, hn::Sub(score, hn::Load(d, work.max + i)));
      auto gradient = hn::Load(d, work.ds + at);
      if (drop) {
        gradient = hn::Mul(gradient, hn::Load(d, work.extra + at));
      }
      gradient = hn::Mul(weight, hn::Sub(gradient, hn::Load(d, work.delta + i)));
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

/// c [rows, columns] += a [rows, 64] · b [64, padded columns]: the last lanes of a row of c may
/// belong to others.
template <class T>
void add_rows(const T* a, const T* b, size_t ldb, T* c, size_t ldc, size_t rows, size_t columns,
              size_t depth) {
  const hn::ScalableTag<T> d;
  const size_t whole = columns / hn::Lanes(d) * hn::Lanes(d);
  product<Start::add, false>(a, size_t{kQueryTile}, b, ldb, c, ldc, rows, whole, depth);
  if (whole == columns) {
    return;
  }
  HWY_ALIGN T rest[kKeyTile * hn::MaxLanes(d)];
  product<Start::zero, false>(a, size_t{kQueryTile}, b + whole, ldb, rest, hn::Lanes(d), rows,
                              hn::Lanes(d), depth);
  for (size_t j = 0; j < rows; ++j) {
    for (size_t i = whole; i < columns; ++i) {
      c[j * ldc + i] += rest[j * hn::Lanes(d) + i - whole];
    }
  }
}

/// gradient[j] += Σ_i s[j][i] · rows[i] for the keys of a tile. The first keys are seen by more
/// rows than the last under a causal mask, so a quarter at a time.
template <class T>
void add_to_keys(const QueryTile<T>& queries, const KeyTile& tile, const T* s, const T* rows,
                 int64_t columns, T* gradient, int64_t stride) {
  constexpr int64_t kKeys = 18;  // three blocks of the product
  const auto line = static_cast<int64_t>(padded(columns));
  for (int64_t j = 0; j < tile.count; j += kKeys) {
    const int64_t first = queries.first_row(tile.key + j);
    const int64_t count = first == 0 && queries.first_row(tile.key + tile.count - 1) == 0
                              ? tile.count
                              : std::min(kKeys, tile.count - j);
    add_rows(s + j * kQueryTile + first, rows + first * line, padded(columns),
             gradient + j * stride, static_cast<size_t>(stride), static_cast<size_t>(count),
             static_cast<size_t>(columns), static_cast<size_t>(queries.rows - first));
    if (count == tile.count) {
      return;
    }
  }
}

template <class T>
void add_bias_gradient(const QueryTile<T>& queries, const KeyTile& tile, const ScoreView<T>& dbias,
                       const T* ds) {
  for (int64_t i = 0; i < queries.rows; ++i) {
    T* into = dbias.at(queries.b, queries.h, queries.row + i, tile.key);
    for (int64_t j = 0; j < tile.count; ++j) {
      into[j * dbias.key] += ds[j * kQueryTile + i];
    }
  }
}

template <class T>
void backward_key_tile(const BackwardPass<T>& pass, const QueryTile<T>& queries,
                       const KeyTile& tile, BackwardBuffers<T>& work) {
  const AttentionProblem<T>& p = pass.problem;
  const int64_t kv_head = p.kv_head(queries.h);
  const T* k = p.k.at(queries.b, kv_head, tile.key);
  const T* v = p.v.at(queries.b, kv_head, tile.key);
  const auto k_stride = static_cast<size_t>(p.k.row);
  score_tile(queries, tile, work.packed, k, k_stride, work.s, work.slope);
  if (tile.some_hidden) {
    keep_scores(work.s, tile.count, work.scores);
  }
  pair_products(queries, tile, v, static_cast<size_t>(p.v.row), work.packed_dout, p.value_depth,
                work.ds);
  if (p.dropout > 0) {
    dropout_tile(queries, tile, work.extra);
  }
  softmax_gradient(queries, tile, work);
  if (pass.gradients.dbias.data != nullptr) {
    add_bias_gradient(queries, tile, pass.gradients.dbias, work.ds);
  }
  const T* ds = p.softcap > 0 ? work.slope : work.ds;
  add_to_keys(queries, tile, work.s, work.rows_dout, p.value_depth,
              pass.gradients.dv.at(queries.b, kv_head, tile.key), pass.gradients.dv.row);
  add_to_keys(queries, tile, ds, work.rows, p.depth,
              pass.gradients.dk.at(queries.b, kv_head, tile.key), pass.gradients.dk.row);
  PoisonedRows<T> poisoned;
  size_t clean_stride = k_stride;
  const T* clean =
      tile.some_hidden ? poisoned.clean(k, &clean_stride, tile.count, p.depth, work.clean) : k;
  add_weighted<Start::add>(queries, tile, clean, clean_stride, ds, p.depth,
                           static_cast<const T*>(nullptr), work.dq);
  poisoned.add(k, k_stride, p.depth, ds, work.scores, queries.rows, work.dq);
}

template <class T>
void backward_query_tile(const BackwardPass<T>& pass, int64_t b, int64_t h, int64_t query_tile) {
  const AttentionProblem<T>& p = pass.problem;
  const QueryTile<T> queries(p, b, h, query_tile);
  BackwardBuffers<T> work(p);
  load_queries(pass, queries, work);
  const int64_t end = queries.end_key();
  for (int64_t key = queries.first_key(); key < end; key = queries.next_key(key)) {
    const KeyTile tile = key_tile(queries, key, end);
    if (!tile.all_hidden) {
      backward_key_tile(pass, queries, tile, work);
    }
  }
  transpose_scaled(work.dq, size_t{kQueryTile}, static_cast<size_t>(p.depth),
                   static_cast<size_t>(queries.rows), static_cast<T>(p.scale),
                   pass.gradients.dq.at(b, h, queries.row),
                   static_cast<size_t>(pass.gradients.dq.row));
}

void backward_f32(const BackwardPass<float>& pass, int64_t b, int64_t h, int64_t tile) {
  backward_query_tile(pass, b, h, tile);
}
void backward_f64(const BackwardPass<double>& pass, int64_t b, int64_t h, int64_t tile) {
  backward_query_tile(pass, b, h, tile);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <vector>

namespace heed::kernels {

HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);

namespace {

constexpr int64_t kTile = 64;

template <class T>
void clear_rows(const HeadsView<T>& view, int64_t b, int64_t h, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    std::fill_n(view.at(b, h, r), columns, T{0});
  }
}

/// How the work is cut. Every task owns its rows of dk and dv, and its elements of dbias, so
/// nothing is added from two sides. Depends on shapes only.
struct Plan {
  bool join_batches = false;  // one task for all batches: dbias is shared between them
  bool join_heads = false;
  int64_t splits = 1;  // query ranges of a head, each with its own dk and dv, added up in order
};

template <class T>
Plan make_plan(const AttentionProblem<T>& p, const ScoreView<T>& dbias) {
  constexpr int64_t kEnough = 8;  // tasks
  Plan plan;
  if (dbias.data != nullptr) {
    plan.join_batches = dbias.batch == 0 && p.batch > 1;
    plan.join_heads = dbias.head == 0 && p.heads > 1;
  }
  const int64_t tasks = (plan.join_batches ? 1 : p.batch) * (plan.join_heads ? 1 : p.kv_heads);
  const int64_t tiles = (p.queries + kTile - 1) / kTile;
  if (tasks < kEnough && tiles >= 8 && (dbias.data == nullptr || dbias.query != 0)) {
    plan.splits = 4;
  }
  // Each further split has arrays of its own: no more than this for all of them.
  constexpr int64_t kMostBytes = 48 << 20;
  const int64_t array =
      p.batch * p.kv_heads * p.keys * (p.depth + p.value_depth) * static_cast<int64_t>(sizeof(T));
  while (plan.splits > 1 && (plan.splits - 1) * array > kMostBytes) {
    plan.splits /= 2;
  }
  return plan;
}

}  // namespace

template <class T>
void attention_backward(const AttentionProblem<T>& p, HeadsView<const T> out,
                        HeadsView<const T> dout, RowStats<const T> stats,
                        const AttentionGradients<T>& gradients) {
  const Plan plan = make_plan(p, gradients.dbias);
  const int64_t tiles = (p.queries + kTile - 1) / kTile;
  const int64_t group = p.heads / p.kv_heads;
  const int64_t batches = plan.join_batches ? p.batch : 1;
  const int64_t kv_heads = plan.join_heads ? p.kv_heads : 1;
  const int64_t tasks_a_split = (p.batch / batches) * (p.kv_heads / kv_heads);

  // Split 0 adds into the result; the others have arrays of their own, laid out [B, Hkv, Tk, D].
  const int64_t dk_size = p.batch * p.kv_heads * p.keys * p.depth;
  const int64_t dv_size = p.batch * p.kv_heads * p.keys * p.value_depth;
  std::vector<T> partial(static_cast<size_t>((plan.splits - 1) * (dk_size + dv_size)));
  const auto gradients_of = [&](int64_t split) {
    AttentionGradients<T> mine = gradients;
    if (split > 0) {
      T* dk = partial.data() + (split - 1) * (dk_size + dv_size);
      mine.dk = {dk, p.kv_heads * p.keys * p.depth, p.keys * p.depth, p.depth};
      mine.dv = {dk + dk_size, p.kv_heads * p.keys * p.value_depth, p.keys * p.value_depth,
                 p.value_depth};
    }
    return mine;
  };

  parallel_for(tasks_a_split * plan.splits, [&](int64_t task) {
    const int64_t split = plan.splits - 1 - task % plan.splits;  // later queries have more work
    const int64_t first_kv_head = task / plan.splits % (p.kv_heads / kv_heads) * kv_heads;
    const int64_t first_batch = task / plan.splits / (p.kv_heads / kv_heads) * batches;
    const BackwardPass<T> pass{p, out, dout, stats, gradients_of(split)};
    for (int64_t b = first_batch; b < first_batch + batches; ++b) {
      for (int64_t kv = first_kv_head; kv < first_kv_head + kv_heads; ++kv) {
        clear_rows(pass.gradients.dk, b, kv, p.keys, p.depth);
        clear_rows(pass.gradients.dv, b, kv, p.keys, p.value_depth);
        for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
          for (int64_t tile = tiles * split / plan.splits; tile < tiles * (split + 1) / plan.splits;
               ++tile) {
            if constexpr (std::is_same_v<T, float>) {
              HWY_DYNAMIC_DISPATCH(backward_f32)(pass, b, h, tile);
            } else {
              HWY_DYNAMIC_DISPATCH(backward_f64)(pass, b, h, tile);
            }
          }
        }
      }
    }
  });
  if (plan.splits == 1) {
    return;
  }
  parallel_for(p.batch * p.kv_heads * p.keys, [&](int64_t task) {
    const int64_t j = task % p.keys;
    const int64_t kv = task / p.keys % p.kv_heads;
    const int64_t b = task / p.keys / p.kv_heads;
    for (int64_t split = 1; split < plan.splits; ++split) {
      const AttentionGradients<T> part = gradients_of(split);
      for (int64_t c = 0; c < p.depth; ++c) {
        gradients.dk.at(b, kv, j)[c] += part.dk.at(b, kv, j)[c];
      }
      for (int64_t c = 0; c < p.value_depth; ++c) {
        gradients.dv.at(b, kv, j)[c] += part.dv.at(b, kv, j)[c];
      }
    }
  });
}
template void attention_backward(const AttentionProblem<float>&, HeadsView<const float>,
                                 HeadsView<const float>, RowStats<const float>,
                                 const AttentionGradients<float>&);
template void attention_backward(const AttentionProblem<double>&, HeadsView<const double>,
                                 HeadsView<const double>, RowStats<const double>,
                                 const AttentionGradients<double>&);

}  // namespace heed::kernels
#endif
