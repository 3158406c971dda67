// Few queries against many keys: a token that is being generated and its cache, or short sentences.
// Keys lie along the lanes here, for with one query 63 lanes of a tile would be idle. Scores, sums
// and products are added up in the order of attention_forward.cc, so both give the same bits.
#include "kernels/attention_rows.h"

#include "base/per_thread.h"
#include "kernels/thread_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_tile-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// The queries of all heads that share the keys of one head: row r is query r % queries of head
/// r / queries of the group.
struct RowGroup {
  int64_t b;
  int64_t kv;
  int64_t rows;
};

template <class C>
struct RowBuffers {
  size_t value_stride;  // value depth, whole vectors
  C* q;                 // [rows, depth]: times scale·log2(e)
  C* keys;              // [depth, 64]: a tile of keys, transposed
  C* s;                 // [rows, 64]: scores, then weights
  C* out;               // [rows, value_stride]
  C* k;                 // [64, depth]: converted keys
  C* v;                 // [64, value_stride]: converted, cleaned or padded values
  C* max;               // [rows]
  C* sum;               // [rows]

  template <class T>
  RowBuffers(const AttentionProblem<T>& p, int64_t rows) {
    thread_local PerThread<ThreadScratch> scratch;
    const auto n = static_cast<size_t>(rows);
    const auto depth = static_cast<size_t>(p.depth);
    value_stride = (static_cast<size_t>(p.value_depth) + 15) / 16 * 16;
    const size_t line = (n + 15) / 16 * 16;
    C* next = scratch.get().reserve<C>(line * (depth + 64 + value_stride + 2) + 2 * 64 * depth +
                                       64 * value_stride);
    const auto take = [&next](size_t count) {
      C* taken = next;
      next += count;
      return taken;
    };
    keys = take(depth * 64);
    k = take(depth * 64);
    v = take(value_stride * 64);
    s = take(line * 64);
    out = take(line * value_stride);
    q = take(line * depth);
    max = take(line);
    sum = take(line);
  }
};

/// Bias and masks of one row's scores, in the order of score_tile().
template <class T, class C>
void mask_row(const QueryTile<T>& query, const KeyTile& tile, C* s) {
  const AttentionProblem<T>& p = query.problem;
  if (p.bias.data != nullptr) {
    add_bias(p.bias.at(query.b, query.h, query.row, tile.key), p.bias.key, tile.count, s);
  }
  if (p.keep.data != nullptr && p.keep.query != 0) {
    hide_where(p.keep.at(query.b, query.h, query.row, tile.key), p.keep.key, false, tile.count, s);
  }
  hide_where(tile.hidden, 1, true, tile.count, s);
  // Seen by position: [first, last] and what lies before the prefix.
  const auto place = [&](int64_t key) {
    return std::clamp(std::max(key, p.prefix) - tile.key, int64_t{0}, tile.count);
  };
  const int64_t first = place(query.row + p.first);
  const int64_t end = std::max(first, place(query.row + p.last + 1));
  std::fill(s + place(0), s + first, -std::numeric_limits<C>::infinity());
  std::fill(s + end, s + tile.count, -std::numeric_limits<C>::infinity());
}

/// One step of the online softmax for one row; s is padded with -inf to whole vectors.
template <class C>
void softmax_row(C* s, size_t padded_count, C* max, C* sum, C* out, size_t value_stride) {
  const hn::ScalableTag<C> d;
  auto largest = hn::Set(d, *max);
  for (size_t j = 0; j < padded_count; j += hn::Lanes(d)) {
    largest = max_or_second(hn::Load(d, s + j), largest);  // skips NaN
  }
  const C new_max = hn::GetLane(hn::MaxOfLanes(d, largest));
  const C base = new_max == -std::numeric_limits<C>::infinity() ? C{0} : new_max;
  const C rescale = hn::GetLane(exp2_nonpositive(d, hn::Set(d, *max - base)));
  *max = new_max;
  for (size_t j = 0; j < padded_count; j += hn::Lanes(d)) {
    hn::Store(exp2_nonpositive(d, hn::Sub(hn::Load(d, s + j), hn::Set(d, base))), d, s + j);
  }
  C part[4] = {};
  for (size_t j = 0; j + 4 <= padded_count; j += 4) {
    for (size_t n = 0; n < 4; ++n) {
      part[n] += s[j + n];
    }
  }
  const C added = (part[0] + part[1]) + (part[2] + part[3]);
  *sum = hn::GetLane(hn::MulAdd(hn::Set(d, *sum), hn::Set(d, rescale), hn::Set(d, added)));
  for (size_t c = 0; c < value_stride; c += hn::Lanes(d)) {
    hn::Store(hn::Mul(hn::Load(d, out + c), hn::Set(d, rescale)), d, out + c);
  }
}

/// out [rows, value depth] += s [rows, 64] · V.
template <class T, class C>
void add_values_to_rows(const AttentionProblem<T>& p, const RowGroup& group, const KeyTile& tile,
                        const uint8_t* visible, RowBuffers<C>& work) {
  const int64_t rows = group.rows;
  size_t stride = 0;
  const C* v = compute_rows(p, p.v, {group.b, group.kv, tile.key, tile.count, p.value_depth},
                            work.v, &stride);
  const auto depth = static_cast<size_t>(p.value_depth);
  PoisonedRows<C> poisoned;
  const bool pad = depth % hn::Lanes(hn::ScalableTag<C>()) != 0;
  if (tile.some_hidden || pad) {
    size_t clean_stride = stride;
    const C* clean = v;
    if (tile.some_hidden) {
      clean = poisoned.clean(v, &clean_stride, tile.count, p.value_depth, work.v);
    }
    if (pad) {  // from the last row on, for the copy may be wider than what it is made from
      for (int64_t j = tile.count - 1; j >= 0; --j) {
        C* line = work.v + static_cast<size_t>(j) * work.value_stride;
        std::memmove(line, clean + static_cast<size_t>(j) * clean_stride, depth * sizeof(C));
        std::fill(line + depth, line + work.value_stride, C{0});
      }
      clean = work.v;
      clean_stride = work.value_stride;
    }
    v = clean;
    stride = clean_stride;
  }
  const size_t columns = pad ? work.value_stride : depth;
  product<Start::add, false>(Product<C>{.a = work.s,
                                        .lda = size_t{kKeyTile},
                                        .b = v,
                                        .ldb = stride,
                                        .c = work.out,
                                        .ldc = work.value_stride,
                                        .rows = static_cast<size_t>(rows),
                                        .columns = columns,
                                        .depth = static_cast<size_t>(tile.count)});
  for (int64_t i = 0; i < poisoned.count; ++i) {
    const int64_t j = poisoned.row[i];
    size_t unused = 0;
    const C* value =
        compute_rows(p, p.v, {group.b, group.kv, tile.key + j, 1, p.value_depth}, work.k, &unused);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < p.value_depth && visible[r * kKeyTile + j] != 0; ++c) {
        work.out[static_cast<size_t>(r) * work.value_stride + static_cast<size_t>(c)] +=
            work.s[r * kKeyTile + j] * value[c];
      }
    }
  }
}

template <class T, class C>
void finish_rows(const AttentionProblem<T>& p, const RowGroup& group, const RowBuffers<C>& work,
                 HeadsView<T> out, RowStats<C> stats) {
  const int64_t heads = p.heads / p.kv_heads;
  for (int64_t r = 0; r < group.rows; ++r) {
    const int64_t h = group.kv * heads + r / p.queries;
    const int64_t row = r % p.queries;
    const bool empty = work.sum[r] == 0;
    const C inverse = empty ? C{0} : C{1} / work.sum[r];
    const int64_t at = (group.b * p.heads + h) * p.queries + row;
    stats.max[at] = empty ? C{0} : work.max[r];
    stats.inverse_sum[at] = inverse;
    map(
        out.at(group.b, h, row), static_cast<size_t>(p.value_depth),
        [inverse](auto d, auto x) HWY_ATTR { return hn::Mul(x, hn::Set(d, inverse)); },
        work.out + static_cast<size_t>(r) * work.value_stride);
  }
}

/// to [depth, 64] = keys [count, depth] transposed. What lies past `count` is finite where they
/// are.
template <class C>
void transpose_keys(const C* keys, size_t stride, int64_t count, int64_t depth, C* to) {
  if constexpr (sizeof(C) == 4) {
    for (int64_t j = 0; j < count; j += kStreams) {
      const uint8_t* row[kStreams];
      for (int64_t i = 0; i < kStreams; ++i) {  // past the end the last key again
        row[i] = reinterpret_cast<const uint8_t*>(
            keys + static_cast<size_t>(std::min(j + i, count - 1)) * stride);
      }
      pack_transposed(row, 0, depth, to + j, kKeyTile);
    }
  } else {
    std::fill_n(to, depth * kKeyTile, C{0});
    transpose_scaled(keys, stride, static_cast<size_t>(count), static_cast<size_t>(depth), C{1}, to,
                     size_t{kKeyTile});
  }
}

/// Scores of one tile of keys for all rows, masked; then their weights.
template <class T, class C>
void weigh_rows(const AttentionProblem<T>& p, const RowGroup& group, const KeyTile& shared,
                bool by_head, uint8_t* visible, RowBuffers<C>& work) {
  const int64_t rows = group.rows;
  const hn::ScalableTag<C> d;
  const auto count = static_cast<size_t>(shared.count);
  const size_t step = HWY_MAX(hn::Lanes(d), size_t{4});  // whole vectors, whole rounds of the sum
  const size_t padded_count = (count + step - 1) / step * step;
  size_t stride = 0;
  const C* k =
      compute_rows(p, p.k, {group.b, group.kv, shared.key, shared.count, p.depth}, work.k, &stride);
  transpose_keys(k, stride, shared.count, p.depth, work.keys);
  product<Start::zero, false>(Product<C>{.a = work.q,
                                         .lda = static_cast<size_t>(p.depth),
                                         .b = work.keys,
                                         .ldb = size_t{kKeyTile},
                                         .c = work.s,
                                         .ldc = size_t{kKeyTile},
                                         .rows = static_cast<size_t>(rows),
                                         .columns = padded_count,
                                         .depth = static_cast<size_t>(p.depth)});
  if (p.softcap > 0) {
    soft_cap(p.softcap, rows, static_cast<int64_t>(padded_count), work.s, static_cast<C*>(nullptr));
  }
  for (int64_t r = 0; r < rows; ++r) {
    C* s = work.s + r * kKeyTile;
    QueryTile<T> query(p, group.b, group.kv * (p.heads / p.kv_heads) + r / p.queries, 0);
    query.row = r % p.queries;
    query.rows = 1;
    if (shared.some_hidden) {
      // Heads of a group may have masks of their own.
      mask_row(query, by_head ? key_tile(query, shared.key, shared.key + shared.count) : shared, s);
      for (size_t j = 0; j < count; ++j) {
        visible[r * kKeyTile + static_cast<int64_t>(j)] =
            s[j] == -std::numeric_limits<C>::infinity() ? 0 : 1;
      }
    }
    std::fill(s + count, s + padded_count, -std::numeric_limits<C>::infinity());
    softmax_row(s, padded_count, work.max + r, work.sum + r,
                work.out + static_cast<size_t>(r) * work.value_stride, work.value_stride);
  }
}

/// Asks for rows of keys or values: the weights of a step of decoding have driven them out of the
/// caches, and the tile before is computed meanwhile.
template <class T>
void fetch_rows(const AttentionProblem<T>& p, const HeadsView<const T>& x, int64_t b, int64_t kv,
                int64_t row, int64_t count, int64_t width) {
  const int64_t bytes = stored_bytes(p.stored, width);
  for (int64_t r = 0; r < count; ++r) {
    const int64_t index = b * x.batch + kv * x.head + (row + r) * x.row;
    const auto* line = reinterpret_cast<const uint8_t*>(x.data) + stored_bytes(p.stored, index);
    for (int64_t byte = 0; byte < bytes; byte += 64) {
      fetch_later(line + byte);
    }
  }
}

template <class T>
void forward_group(const AttentionProblem<T>& p, int64_t b, int64_t kv, HeadsView<T> out,
                   RowStats<Compute<T>> stats) {
  using C = Compute<T>;
  const int64_t group = p.heads / p.kv_heads;
  const int64_t rows = group * p.queries;
  const RowGroup all{b, kv, rows};
  RowBuffers<C> work(p, rows);
  const C factor = static_cast<C>(p.scale * kLog2e);
  for (int64_t r = 0; r < rows; ++r) {
    const T* q = p.q.at(b, kv * group + r / p.queries, r % p.queries);
    for (int64_t c = 0; c < p.depth; ++c) {
      work.q[r * p.depth + c] = widen(q[c]) * factor;
    }
  }
  std::fill_n(work.out, static_cast<size_t>(rows) * work.value_stride, C{0});
  std::fill_n(work.max, rows, -std::numeric_limits<C>::infinity());
  std::fill_n(work.sum, rows, C{0});
  uint8_t visible[kFewRows * kKeyTile];
  const QueryTile<T> queries(p, b, kv * group, 0);
  const int64_t end = queries.end_key();
  const bool by_head = p.keep.data != nullptr && p.keep.query == 0 && p.keep.head != 0 && group > 1;
  for (int64_t key = queries.first_key(); key < end; key = queries.next_key(key)) {
    KeyTile tile = key_tile(queries, key, end);
    tile.some_hidden = tile.some_hidden || by_head;
    if (by_head || !tile.all_hidden) {
      fetch_rows(p, p.v, b, kv, tile.key, tile.count, p.value_depth);
      weigh_rows(p, all, tile, by_head, visible, work);
      const int64_t next = queries.next_key(key);
      if (next < end) {
        fetch_rows(p, p.k, b, kv, next, std::min(kKeyTile, end - next), p.depth);
      } else if (kv + 1 < p.kv_heads) {
        const int64_t first = queries.first_key();
        fetch_rows(p, p.k, b, kv + 1, first, std::min(kKeyTile, end - first), p.depth);
      }
      add_values_to_rows(p, all, tile, visible, work);
    }
  }
  finish_rows(p, all, work, out, stats);
}

#define HEED_ROWS(NAME, TYPE)                                                            \
  void NAME(const AttentionProblem<TYPE>& p, int64_t b, int64_t kv, HeadsView<TYPE> out, \
            RowStats<Compute<TYPE>> stats) {                                             \
    forward_group(p, b, kv, out, stats);                                                 \
  }
HEED_ROWS(rows_f32, float)
HEED_ROWS(rows_f64, double)
HEED_ROWS(rows_f16, Half)
HEED_ROWS(rows_bf16, BFloat16)
#undef HEED_ROWS

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(rows_f16);
HWY_EXPORT(rows_bf16);

void attention_rows(const AttentionProblem<float>& p, int64_t b, int64_t kv, HeadsView<float> out,
                    RowStats<float> stats) {
  HWY_DYNAMIC_DISPATCH(rows_f32)(p, b, kv, out, stats);
}
void attention_rows(const AttentionProblem<double>& p, int64_t b, int64_t kv, HeadsView<double> out,
                    RowStats<double> stats) {
  HWY_DYNAMIC_DISPATCH(rows_f64)(p, b, kv, out, stats);
}
void attention_rows(const AttentionProblem<Half>& p, int64_t b, int64_t kv, HeadsView<Half> out,
                    RowStats<float> stats) {
  HWY_DYNAMIC_DISPATCH(rows_f16)(p, b, kv, out, stats);
}
void attention_rows(const AttentionProblem<BFloat16>& p, int64_t b, int64_t kv,
                    HeadsView<BFloat16> out, RowStats<float> stats) {
  HWY_DYNAMIC_DISPATCH(rows_bf16)(p, b, kv, out, stats);
}

}  // namespace heed::kernels
#endif
