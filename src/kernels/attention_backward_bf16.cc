// The backward pass of attention with products in bf16: q, k, v and dout as they are, weights and
// their gradients rounded, sums and the softmax in f32.
#include <vector>

#include "base/per_thread.h"
#include "kernels/attention_backward.h"
#include "kernels/thread_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward_bf16.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_backward-inl.h"
#include "kernels/attention_bf16-inl.h"
#include "kernels/attention_dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HEED_BF16_INSTRUCTIONS

using PairPass = BackwardPass<BFloat16>;
using PairQueries = QueryTile<BFloat16>;
constexpr size_t kPairRows = kQueryTile / 2;

/// A tile of queries in the layouts that the products read.
struct PairTile {
  PairQueries queries;
  int64_t key;                      // the tile of keys that comes next
  int64_t end;                      // of the keys that some row may see
  Bf16Pair* packed = nullptr;       // [pairs of depth, 64]: queries
  Bf16Pair* packed_dout = nullptr;  // [pairs of value depth, 64]: the output's gradient
  Bf16Pair* rows = nullptr;         // [32, padded depth]: pairs of queries
  Bf16Pair* rows_dout = nullptr;    // [32, padded value depth]: pairs of rows of the gradient
  float* dq = nullptr;              // [depth, 64]
  float* max = nullptr;             // [64]
  float* inverse = nullptr;         // [64]: 1 / sum
  float* delta = nullptr;           // [64]: Σ out · dout

  explicit PairTile(const PairQueries& of) : queries(of), key(of.first_key()), end(of.end_key()) {}
};

/// Working memory of some tiles of queries and of the pair of tiles that is computed.
struct PairBuffers {
  std::vector<PairTile> tiles;
  float* s;              // [64, 64]: scores
  float* ds;             // [64, 64]: gradient of the weights, then where wanted of the scores
  float* extra;          // [64, 64]: dropout's factors
  float* slope;          // [64, 64]: the soft-cap's derivative
  float* scores;         // [64, 64]: kept where some pair is hidden
  float* k;              // [64, padded depth]: keys in f32
  BFloat16* weight;      // [64, 64]: weights as dropout leaves them
  BFloat16* grad;        // [64, 64]: gradient of the scores times scale
  Bf16Pair* grad_pairs;  // [32, 64]: the same, two keys in a word
  Bf16Pair* k_pairs;     // [32, padded depth]: two keys in a word
  Bf16Pair* copied;  // [64, padded depth or value depth]: keys or values that do not lie in pairs
  BFloat16* clean;   // [64, padded depth or value depth]
  int64_t k_pairs_key = -1;  // whose keys k_pairs holds, and how many
  int64_t k_pairs_count = 0;

  PairBuffers(const AttentionProblem<BFloat16>& p, int64_t b, int64_t h, int64_t first,
              int64_t last) {
    thread_local PerThread<ThreadScratch> scratch;
    const size_t square = kQueryTile * kKeyTile;
    const size_t depth = padded(p.depth) * kQueryTile;
    const size_t value_depth = padded(p.value_depth) * kQueryTile;
    const size_t larger = HWY_MAX(depth, value_depth);
    const auto count = static_cast<size_t>(last - first);
    float* next =
        scratch.get().reserve<float>(count * (3 * depth + 2 * value_depth + 3 * kQueryTile) +
                                     8 * square + 2 * depth + 2 * larger);
    const auto take = [&next](size_t wanted) {
      float* taken = next;
      next += wanted;
      return taken;
    };
    const auto take_pairs = [&](size_t wanted) {
      return reinterpret_cast<Bf16Pair*>(take(wanted));
    };
    tiles.reserve(count);
    for (int64_t tile = first; tile < last; ++tile) {
      PairTile& mine = tiles.emplace_back(PairQueries(p, b, h, tile));
      mine.packed = take_pairs(depth);
      mine.packed_dout = take_pairs(value_depth);
      mine.rows = take_pairs(depth / 2);
      mine.rows_dout = take_pairs(value_depth / 2);
      mine.dq = take(depth);
      mine.max = take(kQueryTile);
      mine.inverse = take(kQueryTile);
      mine.delta = take(kQueryTile);
    }
    s = take(square);
    ds = take(square);
    extra = take(square);
    slope = take(square);
    scores = take(square);
    k = take(depth);
    weight = reinterpret_cast<BFloat16*>(take(square / 2));
    grad = reinterpret_cast<BFloat16*>(take(square / 2));
    grad_pairs = take_pairs(square / 2);
    k_pairs = take_pairs(depth / 2);
    copied = take_pairs(larger);
    clean = reinterpret_cast<BFloat16*>(take(larger / 2));
  }
};

/// Rows of a view that some key is seen by, one after the other; the others are zero, whatever they
/// hold.
inline void seen_rows(const PairTile& mine, const HeadsView<const BFloat16>& view, int64_t columns,
                      BFloat16* out) {
  const PairQueries& queries = mine.queries;
  const size_t line = padded(columns);
  std::fill_n(out, line * kQueryTile, BFloat16{0});
  for (int64_t i = 0; i < queries.rows; ++i) {
    if (mine.inverse[i] != 0) {
      std::copy_n(view.at(queries.b, queries.h, queries.row + i), columns,
                  out + static_cast<size_t>(i) * line);
    }
  }
}

inline void load_pair_queries(const PairPass& pass, PairTile& mine, PairBuffers& work) {
  const AttentionProblem<BFloat16>& p = pass.problem;
  const PairQueries& queries = mine.queries;
  const int64_t at = (queries.b * p.heads + queries.h) * p.queries + queries.row;
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < queries.width; ++i) {
    const bool real = i < queries.rows;
    mine.inverse[i] = real ? pass.stats.inverse_sum[at + i] : 0.0f;
    mine.max[i] = mine.inverse[i] != 0 ? pass.stats.max[at + i] : 0.0f;
    mine.delta[i] = 0.0f;
    if (mine.inverse[i] != 0) {
      mine.delta[i] = sum_of(
          d, static_cast<size_t>(p.value_depth),
          [](auto, auto x, auto y) HWY_ATTR { return hn::Mul(x, y); },
          pass.out.at(queries.b, queries.h, queries.row + i),
          pass.dout.at(queries.b, queries.h, queries.row + i));
    }
  }
  const auto load = [&](const HeadsView<const BFloat16>& view, int64_t columns, Bf16Pair* packed,
                        Bf16Pair* rows) {
    const auto line = static_cast<int64_t>(padded(columns));
    seen_rows(mine, view, columns, work.clean);
    transpose_pairs(work.clean, line, queries.width, queries.width, columns, packed);
    join_row_pairs(work.clean, padded(columns), kQueryTile, columns, rows, padded(columns));
  };
  load(p.q, p.depth, mine.packed, mine.rows);
  load(pass.dout, p.value_depth, mine.packed_dout, mine.rows_dout);
  std::fill_n(mine.dq, static_cast<size_t>(p.depth * kQueryTile), 0.0f);
}

/// From scores and the gradient of the weights: both in bf16, as the products read them.
inline void pair_softmax_gradient(const PairTile& mine, const KeyTile& tile, bool keep_gradient,
                                  PairBuffers& work) {
  const PairQueries& queries = mine.queries;
  const AttentionProblem<BFloat16>& p = queries.problem;
  const hn::ScalableTag<float> d;
  const hn::Half<HalfWords> half;
  using V = hn::Vec<decltype(d)>;
  const bool drop = p.dropout > 0;
  const bool capped = p.softcap > 0;
  const auto scale = hn::Set(d, static_cast<float>(p.scale));
  const auto store_rows = [&](hn::Vec<HalfWords> both, BFloat16* at) HWY_ATTR {
    auto* to = reinterpret_cast<uint16_t*>(at);
    hn::StoreU(hn::LowerHalf(half, both), half, to);
    hn::StoreU(hn::UpperHalf(half, both), half, to + kQueryTile);
  };
  for (int64_t j = 0; j < tile.count; j += 2) {
    for (int64_t i = 0; i < queries.width; i += 16) {
      V weights[2] = {hn::Zero(d), hn::Zero(d)};
      V gradients[2] = {hn::Zero(d), hn::Zero(d)};
      for (int64_t n = 0; n < std::min<int64_t>(2, tile.count - j); ++n) {
        const int64_t at = (j + n) * kQueryTile + i;
        const auto score = hn::Load(d, work.s + at);
        // Recomputed scores are the forward pass' own, so none lies above the maximum.
        auto weight = hn::Mul(exp2_nonpositive(d, hn::Sub(score, hn::Load(d, mine.max + i))),
                              hn::Load(d, mine.inverse + i));
        auto gradient = hn::Load(d, work.ds + at);
        if (drop) {
          gradient = hn::Mul(gradient, hn::Load(d, work.extra + at));
        }
        gradient = hn::Mul(weight, hn::Sub(gradient, hn::Load(d, mine.delta + i)));
        if (drop) {
          weight = hn::Mul(weight, hn::Load(d, work.extra + at));
        }
        if (tile.some_hidden) {  // a hidden pair's product may be anything, NaN included
          const auto hidden = hn::Eq(score, hn::Set(d, -std::numeric_limits<float>::infinity()));
          gradient = hn::IfThenZeroElse(hidden, gradient);
        }
        if (keep_gradient) {
          hn::Store(gradient, d, work.ds + at);
        }
        if (capped) {
          const auto sloped = hn::Mul(gradient, hn::Load(d, work.slope + at));
          gradient =
              tile.some_hidden ? hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d)), sloped) : sloped;
        }
        weights[n] = weight;
        gradients[n] = hn::Mul(gradient, scale);
        if (tile.some_hidden) {
          hn::Store(gradients[n], d, work.slope + at);  // for PoisonedRows
        }
      }
      const int64_t at = j * kQueryTile + i;
      store_rows(round_two(weights[0], weights[1]), work.weight + at);
      const auto both = round_two(gradients[0], gradients[1]);
      store_rows(both, work.grad + at);
      hn::StoreU(interleave_halves(both), hn::ScalableTag<uint32_t>(),
                 reinterpret_cast<uint32_t*>(work.grad_pairs + j / 2 * kQueryTile + i));
    }
  }
}

/// dq += gradient · K.
inline void add_to_queries(const PairPass& pass, PairTile& mine, const KeyTile& tile,
                           PairBuffers& work) {
  const AttentionProblem<BFloat16>& p = pass.problem;
  const PairQueries& queries = mine.queries;
  const HeadRows rows = tile_rows(queries, tile, p.depth);
  PoisonedRows<float> poisoned;
  size_t stride = 0;
  if (tile.some_hidden) {
    const float* k = compute_rows(p, p.k, rows, work.k, &stride);
    const float* clean = poisoned.clean(k, &stride, tile.count, p.depth, work.k);
    if (poisoned.count > 0) {
      join_row_pairs(clean, stride, tile.count, p.depth, work.k_pairs, padded(p.depth));
      work.k_pairs_key = -1;
    }
  }
  if (poisoned.count == 0 && (work.k_pairs_key != tile.key || work.k_pairs_count != tile.count)) {
    join_row_pairs(p.k.at(rows.b, rows.h, rows.row), static_cast<size_t>(p.k.row), tile.count,
                   p.depth, work.k_pairs, padded(p.depth));
    work.k_pairs_key = tile.key;
    work.k_pairs_count = tile.count;
  }
  add_weighted<Start::add>(queries, tile, KeyRows<Bf16Pair>{work.k_pairs, padded(p.depth)},
                           static_cast<const Bf16Pair*>(work.grad_pairs), p.depth,
                           static_cast<const float*>(nullptr), mine.dq);
  if (poisoned.count > 0) {
    const float* k = compute_rows(p, p.k, rows, work.k, &stride);
    poisoned.add(k, stride, p.depth, work.slope, work.scores, queries.rows, mine.dq);
  }
}

inline void backward_pair_tile(const PairPass& pass, PairTile& mine, const KeyTile& tile,
                               PairBuffers& work) {
  const AttentionProblem<BFloat16>& p = pass.problem;
  const PairQueries& queries = mine.queries;
  const int64_t kv_head = p.kv_head(queries.h);
  size_t stride = 0;
  const Bf16Pair* k = rows_as_pairs(p.k, tile_rows(queries, tile, p.depth), work.copied, &stride);
  const auto scale = static_cast<float>(p.scale * kLog2e);
  pair_products<Start::scale>(queries, tile, KeyRows<Bf16Pair>{k, stride},
                              static_cast<const Bf16Pair*>(mine.packed), pairs_in(p.depth), work.s,
                              &scale);
  finish_scores(queries, tile, work.s, work.slope);
  if (tile.some_hidden) {
    keep_scores(work.s, tile.count, work.scores);
  }
  const Bf16Pair* v =
      rows_as_pairs(p.v, tile_rows(queries, tile, p.value_depth), work.copied, &stride);
  pair_products(queries, tile, KeyRows<Bf16Pair>{v, stride},
                static_cast<const Bf16Pair*>(mine.packed_dout), pairs_in(p.value_depth), work.ds);
  if (p.dropout > 0) {
    dropout_tile(queries, tile, work.extra);
  }
  const ScoreView<float>& dbias = pass.dbias;
  pair_softmax_gradient(mine, tile, dbias.data != nullptr, work);
  if (dbias.data != nullptr) {
    add_bias_gradient(queries, tile, dbias, work.ds);
  }
  const auto as_pairs = [](const BFloat16* rows) {
    return reinterpret_cast<const Bf16Pair*>(rows);
  };
  add_to_keys(
      queries, tile, as_pairs(work.weight), kPairRows, static_cast<const Bf16Pair*>(mine.rows_dout),
      KeyGradient<float>{pass.dv.at(queries.b, kv_head, tile.key), pass.dv.row, p.value_depth});
  add_to_keys(queries, tile, as_pairs(work.grad), kPairRows,
              static_cast<const Bf16Pair*>(mine.rows),
              KeyGradient<float>{pass.dk.at(queries.b, kv_head, tile.key), pass.dk.row, p.depth});
  add_to_queries(pass, mine, tile, work);
}

#endif

void backward_bf16([[maybe_unused]] const BackwardPass<BFloat16>& pass, [[maybe_unused]] int64_t b,
                   [[maybe_unused]] int64_t h, [[maybe_unused]] int64_t first,
                   [[maybe_unused]] int64_t last) {
#if HEED_BF16_INSTRUCTIONS
  const AttentionProblem<BFloat16>& p = pass.problem;
  PairBuffers work(p, b, h, first, last);
  for (PairTile& mine : work.tiles) {
    load_pair_queries(pass, mine, work);
  }
  each_pair_of_tiles(p, work.tiles, [&](PairTile& mine, const KeyTile& tile) {
    backward_pair_tile(pass, mine, tile, work);
  });
  const size_t line = padded(p.depth);
  for (const PairTile& mine : work.tiles) {
    float* rows = reinterpret_cast<float*>(mine.packed);  // [64, padded depth]: free by now
    transpose_scaled(mine.dq, size_t{kQueryTile}, static_cast<size_t>(p.depth),
                     static_cast<size_t>(mine.queries.rows), 1.0f, rows, line);
    for (int64_t i = 0; i < mine.queries.rows; ++i) {
      map(
          pass.dq.at(b, h, mine.queries.row + i), static_cast<size_t>(p.depth),
          [](auto, auto x) HWY_ATTR { return x; }, rows + static_cast<size_t>(i) * line);
    }
  }
#endif
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(backward_bf16);

void attention_backward_tiles(const BackwardPass<BFloat16>& pass, int64_t b, int64_t h,
                              int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(backward_bf16)(pass, b, h, first, last);
}

}  // namespace heed::kernels
#endif
