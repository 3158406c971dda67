#include "base/parallel.h"
#include "base/per_thread.h"
#include "kernels/attention.h"
#include "kernels/attention_rows.h"
#include "kernels/gemm.h"
#include "kernels/thread_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_bf16-inl.h"
#include "kernels/attention_dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Working memory of one query tile.
template <class C>
struct ForwardBuffers {
  C* packed;   // [depth, 64]: queries times scale·log2(e)
  C* out;      // [value depth, 64]: the output so far, not yet divided by the sum
  C* s;        // [64, 64]: scores, then weights
  C* factors;  // [64, 64]: dropout
  C* scores;   // [64, 64]: kept where some pair is hidden
  C* k;        // [64, depth]: converted keys
  C* v;        // [64, value depth]: converted or cleaned values
  C* v_pairs;  // [32, value depth]: pairs of values
  C* s_pairs;  // [32, 64]: pairs of weights
  C* max;      // [64]
  C* sum;      // [64]
  C* rescale;  // [64]

  template <class T>
  explicit ForwardBuffers(const AttentionProblem<T>& p) {
    thread_local PerThread<ThreadScratch> scratch;
    const size_t square = kQueryTile * kKeyTile;
    const size_t depth = padded(p.depth) * kQueryTile;
    const size_t value_depth = padded(p.value_depth) * kQueryTile;
    C* next = scratch.get().reserve<C>(2 * depth + 3 * value_depth + 4 * square + 3 * kQueryTile);
    const auto take = [&next](size_t count) {
      C* taken = next;
      next += count;
      return taken;
    };
    packed = take(depth);
    out = take(value_depth);
    s = take(square);
    factors = take(square);
    scores = take(square);
    k = take(depth);
    v = take(value_depth);
    v_pairs = take(value_depth / 2);
    s_pairs = take(square / 2);
    max = take(kQueryTile);
    sum = take(kQueryTile);
    rescale = take(kQueryTile);
  }
};

/// One step of the online softmax: s becomes exp2(s - max), the sum is brought up to date, and
/// rescale holds what earlier results must be multiplied by.
template <class C>
void softmax_step(int64_t count, int64_t width, ForwardBuffers<C>& work) {
  const hn::ScalableTag<C> d;
  const auto minus_infinity = hn::Set(d, -std::numeric_limits<C>::infinity());
  for (size_t i = 0; i < static_cast<size_t>(width); i += hn::Lanes(d)) {
    C* s = work.s + i;
    const auto before = hn::Load(d, work.max + i);
    auto max = before;
    for (int64_t j = 0; j < count; ++j) {
      max = max_or_second(hn::Load(d, s + j * kQueryTile), max);
    }
    hn::Store(max, d, work.max + i);
    // A row that has seen no key yet: -inf - 0 gives weights of 0 instead of NaN.
    const auto base = hn::IfThenZeroElse(hn::Eq(max, minus_infinity), max);
    const auto rescale = exp2_nonpositive(d, hn::Sub(before, base));
    hn::Store(rescale, d, work.rescale + i);
    hn::Vec<decltype(d)> sum[4];  // key j goes to sum j % 4
    unroll<4>([&](auto n) HEED_INLINE_LAMBDA { sum[n] = hn::Zero(d); });
    const auto weigh = [&](int64_t j, auto n) HEED_INLINE_LAMBDA {
      C* at = s + j * kQueryTile;
      const auto weight = exp2_nonpositive(d, hn::Sub(hn::Load(d, at), base));
      hn::Store(weight, d, at);
      sum[n] = hn::Add(sum[n], weight);
    };
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
      unroll<4>([&](auto n) HEED_INLINE_LAMBDA { weigh(j + static_cast<int64_t>(n), n); });
    }
    unroll<3>([&](auto n) HEED_INLINE_LAMBDA {
      if (j + static_cast<int64_t>(n) < count) {
        weigh(j + static_cast<int64_t>(n), n);
      }
    });
    const auto added = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
    hn::Store(hn::MulAdd(hn::Load(d, work.sum + i), rescale, added), d, work.sum + i);
  }
}

template <class C>
void apply_dropout(int64_t count, int64_t width, ForwardBuffers<C>& work) {
  const hn::ScalableTag<C> d;
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t i = j * kQueryTile; i < j * kQueryTile + width;
         i += static_cast<int64_t>(hn::Lanes(d))) {
      hn::Store(hn::Mul(hn::Load(d, work.s + i), hn::Load(d, work.factors + i)), d, work.s + i);
    }
  }
}

/// The products of a query tile in the compute type.
template <class T>
struct WideProducts {
  using C = Compute<T>;

  static void load_queries(const QueryTile<T>& queries, ForwardBuffers<C>& work) {
    const AttentionProblem<T>& p = queries.problem;
    pack_transposed(p.q.at(queries.b, queries.h, queries.row), p.q.row, queries.rows, queries.width,
                    p.depth, p.scale * kLog2e, work.packed);
  }
  static void scores(const QueryTile<T>& queries, const KeyTile& tile, ForwardBuffers<C>& work) {
    const AttentionProblem<T>& p = queries.problem;
    size_t stride = 0;
    const C* k = compute_rows(p, p.k, tile_rows(queries, tile, p.depth), work.k, &stride);
    score_tile(queries, tile, work.packed, KeyRows<C>{k, stride}, work.s, static_cast<C*>(nullptr));
  }
  static void add(const QueryTile<T>& queries, const KeyTile& tile, const C* values, size_t stride,
                  ForwardBuffers<C>& work) {
    add_weighted<Start::rescale>(queries, tile, KeyRows<C>{values, stride}, work.s,
                                 queries.problem.value_depth, work.rescale, work.out);
  }
  /// out = out * rescale + weights · V for a tile without hidden pairs.
  static void add_all(const QueryTile<T>& queries, const KeyTile& tile, ForwardBuffers<C>& work) {
    const AttentionProblem<T>& p = queries.problem;
    size_t stride = 0;
    const C* v = compute_rows(p, p.v, tile_rows(queries, tile, p.value_depth), work.v, &stride);
    add(queries, tile, v, stride, work);
  }
};

#if HEED_BF16_INSTRUCTIONS
/// The products in bf16: q, k and v as they are, weights rounded, all sums and the softmax in f32.
struct PairProducts {
  using T = BFloat16;

  static Bf16Pair* pairs(float* memory) { return reinterpret_cast<Bf16Pair*>(memory); }
  static void load_queries(const QueryTile<T>& queries, ForwardBuffers<float>& work) {
    const AttentionProblem<T>& p = queries.problem;
    transpose_pairs(p.q.at(queries.b, queries.h, queries.row), p.q.row, queries.rows, queries.width,
                    p.depth, pairs(work.packed));
  }
  static void scores(const QueryTile<T>& queries, const KeyTile& tile,
                     ForwardBuffers<float>& work) {
    const AttentionProblem<T>& p = queries.problem;
    size_t stride = 0;
    const Bf16Pair* k =
        rows_as_pairs(p.k, tile_rows(queries, tile, p.depth), pairs(work.k), &stride);
    const auto scale = static_cast<float>(p.scale * kLog2e);
    pair_products<Start::scale>(queries, tile, KeyRows<Bf16Pair>{k, stride}, pairs(work.packed),
                                pairs_in(p.depth), work.s, &scale);
    finish_scores(queries, tile, work.s, static_cast<float*>(nullptr));
  }
  template <class V>
  static void add(const QueryTile<T>& queries, const KeyTile& tile, const V* values, size_t stride,
                  ForwardBuffers<float>& work) {
    const int64_t columns = queries.problem.value_depth;
    join_row_pairs(values, stride, tile.count, columns, pairs(work.v_pairs), padded(columns));
    join_row_pairs(work.s, size_t{kQueryTile}, tile.count, queries.width, pairs(work.s_pairs),
                   size_t{kQueryTile});
    add_weighted<Start::rescale>(queries, tile,
                                 KeyRows<Bf16Pair>{pairs(work.v_pairs), padded(columns)},
                                 pairs(work.s_pairs), columns, work.rescale, work.out);
  }
  static void add_all(const QueryTile<T>& queries, const KeyTile& tile,
                      ForwardBuffers<float>& work) {
    const AttentionProblem<T>& p = queries.problem;
    add(queries, tile, p.v.at(queries.b, p.kv_head(queries.h), tile.key),
        static_cast<size_t>(p.v.row), work);
  }
};
#endif

/// out = out * rescale + weights · V for one tile of keys.
template <class Products, class T, class C>
void add_values(const QueryTile<T>& queries, const KeyTile& tile, ForwardBuffers<C>& work) {
  if (!tile.some_hidden) {
    Products::add_all(queries, tile, work);
    return;
  }
  const AttentionProblem<T>& p = queries.problem;
  const auto values = [&](size_t* stride) {
    return compute_rows(p, p.v, tile_rows(queries, tile, p.value_depth), work.v, stride);
  };
  size_t stride = 0;
  const C* v = values(&stride);
  PoisonedRows<C> poisoned;
  const C* clean = poisoned.clean(v, &stride, tile.count, p.value_depth, work.v);
  Products::add(queries, tile, clean, stride, work);
  if (poisoned.count > 0) {
    v = values(&stride);  // converted ones were cleaned in place
    poisoned.add(v, stride, p.value_depth, work.s, work.scores, queries.rows, work.out);
  }
}

/// Divides by the sum and writes the rows out.
template <class T, class C>
void finish_rows(const QueryTile<T>& queries, ForwardBuffers<C>& work, HeadsView<T> out,
                 RowStats<C> stats) {
  const AttentionProblem<T>& p = queries.problem;
  const int64_t at = (queries.b * p.heads + queries.h) * p.queries + queries.row;
  for (int64_t i = 0; i < queries.width; ++i) {
    const bool empty = work.sum[i] == 0;
    work.sum[i] = empty ? C{0} : C{1} / work.sum[i];
    if (i < queries.rows) {
      stats.max[at + i] = empty ? C{0} : work.max[i];
      stats.inverse_sum[at + i] = work.sum[i];
    }
  }
  const hn::ScalableTag<C> d;
  for (int64_t c = 0; c < p.value_depth; ++c) {
    C* line = work.out + c * kQueryTile;
    for (size_t i = 0; i < static_cast<size_t>(queries.width); i += hn::Lanes(d)) {
      hn::Store(hn::Mul(hn::Load(d, line + i), hn::Load(d, work.sum + i)), d, line + i);
    }
  }
  T* first = out.at(queries.b, queries.h, queries.row);
  if constexpr (std::is_same_v<T, C>) {
    transpose_scaled(work.out, size_t{kQueryTile}, static_cast<size_t>(p.value_depth),
                     static_cast<size_t>(queries.rows), C{1}, first, static_cast<size_t>(out.row));
  } else {
    C* rows = work.v;  // free by now
    transpose_scaled(work.out, size_t{kQueryTile}, static_cast<size_t>(p.value_depth),
                     static_cast<size_t>(queries.rows), C{1}, rows,
                     static_cast<size_t>(p.value_depth));
    for (int64_t i = 0; i < queries.rows; ++i) {
      map(
          first + i * out.row, static_cast<size_t>(p.value_depth),
          [](auto, auto x) HWY_ATTR { return x; }, rows + i * p.value_depth);
    }
  }
}

template <class Products, class T>
void forward_tile(const AttentionProblem<T>& p, int64_t b, int64_t h, int64_t query_tile,
                  HeadsView<T> out, RowStats<Compute<T>> stats) {
  using C = Compute<T>;
  const QueryTile<T> queries(p, b, h, query_tile);
  ForwardBuffers<C> work(p);
  Products::load_queries(queries, work);
  std::fill_n(work.out, p.value_depth * kQueryTile, C{0});
  std::fill_n(work.max, kQueryTile, -std::numeric_limits<C>::infinity());
  std::fill_n(work.sum, kQueryTile, C{0});
  const int64_t end = queries.end_key();
  for (int64_t key = queries.first_key(); key < end; key = queries.next_key(key)) {
    const KeyTile tile = key_tile(queries, key, end);
    if (tile.all_hidden) {
      continue;
    }
    Products::scores(queries, tile, work);
    if (tile.some_hidden) {
      keep_scores(work.s, tile.count, work.scores);
    }
    softmax_step(tile.count, queries.width, work);
    if (p.dropout > 0) {
      dropout_tile(queries, tile, work.factors);
      apply_dropout(tile.count, queries.width, work);
    }
    add_values<Products>(queries, tile, work);
  }
  finish_rows(queries, work, out, stats);
}

#define HEED_FORWARD(NAME, TYPE)                                                 \
  void NAME(const AttentionProblem<TYPE>& p, int64_t b, int64_t h, int64_t tile, \
            HeadsView<TYPE> out, RowStats<Compute<TYPE>> stats) {                \
    forward_tile<WideProducts<TYPE>>(p, b, h, tile, out, stats);                 \
  }
HEED_FORWARD(forward_f32, float)
HEED_FORWARD(forward_f64, double)
HEED_FORWARD(forward_f16, Half)
#undef HEED_FORWARD

void forward_bf16(const AttentionProblem<BFloat16>& p, int64_t b, int64_t h, int64_t tile,
                  HeadsView<BFloat16> out, RowStats<float> stats,
                  [[maybe_unused]] bool instructions) {
#if HEED_BF16_INSTRUCTIONS
  if (instructions) {
    forward_tile<PairProducts>(p, b, h, tile, out, stats);
    return;
  }
#endif
  forward_tile<WideProducts<BFloat16>>(p, b, h, tile, out, stats);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(forward_f16);
HWY_EXPORT(forward_bf16);

namespace {

/// Whether attention_rows() takes the call. Not where products are in bf16: its order is another.
template <class T>
bool has_few_rows(const AttentionProblem<T>& problem) {
  const bool in_pairs = std::is_same_v<T, BFloat16> && uses_bf16_instructions();
  return !in_pairs && problem.dropout == 0 &&
         problem.queries * (problem.heads / problem.kv_heads) <= kFewRows;
}

}  // namespace

template <class T>
void attention_forward(const AttentionProblem<T>& problem, HeadsView<T> out,
                       RowStats<Compute<T>> stats) {
  if (has_few_rows(problem)) {
    parallel_ranges(problem.batch * problem.kv_heads, problem.kv_heads_together(),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t task = begin; task < end; ++task) {
                        attention_rows(problem, task / problem.kv_heads, task % problem.kv_heads,
                                       out, stats);
                      }
                    });
    return;
  }
  constexpr int64_t kTile = 64;
  const int64_t tiles = (problem.queries + kTile - 1) / kTile;
  parallel_for(problem.batch * problem.heads * tiles, [&](int64_t task) {
    // The last query tiles of a head come first: a causal mask leaves them the most work.
    const int64_t tile = tiles - 1 - task % tiles;
    const int64_t h = task / tiles % problem.heads;
    const int64_t b = task / tiles / problem.heads;
    if constexpr (std::is_same_v<T, float>) {
      HWY_DYNAMIC_DISPATCH(forward_f32)(problem, b, h, tile, out, stats);
    } else if constexpr (std::is_same_v<T, double>) {
      HWY_DYNAMIC_DISPATCH(forward_f64)(problem, b, h, tile, out, stats);
    } else if constexpr (std::is_same_v<T, Half>) {
      HWY_DYNAMIC_DISPATCH(forward_f16)(problem, b, h, tile, out, stats);
    } else {
      HWY_DYNAMIC_DISPATCH(forward_bf16)
      (problem, b, h, tile, out, stats, uses_bf16_instructions());
    }
  });
}
template void attention_forward(const AttentionProblem<float>&, HeadsView<float>, RowStats<float>);
template void attention_forward(const AttentionProblem<double>&, HeadsView<double>,
                                RowStats<double>);
template void attention_forward(const AttentionProblem<Half>&, HeadsView<Half>, RowStats<float>);
template void attention_forward(const AttentionProblem<BFloat16>&, HeadsView<BFloat16>,
                                RowStats<float>);

void attention_dropout_row(RandomKey random, double p, int64_t batch_head, int64_t row,
                           int64_t keys, double* factors) {
  const auto threshold = static_cast<uint32_t>(p * 4294967296.0);
  const uint64_t stream = random.stream + (static_cast<uint64_t>(batch_head) << 40);
  for (int64_t j = 0; j < keys; ++j) {
    const auto position = static_cast<uint64_t>(row) << 32 | static_cast<uint64_t>(j / 4);
    const uint32_t word = philox(random.seed, stream, position)[static_cast<size_t>(j % 4)];
    factors[j] = word >= threshold ? 1.0 / (1.0 - p) : 0.0;
  }
}

}  // namespace heed::kernels
#endif
