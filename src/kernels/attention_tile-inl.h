// One tile of scores, 64 queries by 64 keys, as all attention kernels compute it. Queries lie along
// the lanes: a row of the softmax is one lane, so no row sees the rows beside it. Per-target code:
// include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_INL_H_
#endif
// clang-format on

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention.h"
#include "kernels/attention_block-inl.h"
#include "kernels/attention_stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

inline constexpr int64_t kQueryTile = 64;
inline constexpr int64_t kKeyTile = 64;
inline constexpr double kLog2e = 1.4426950408889634074;
inline constexpr double kLn2 = 0.69314718055994530942;

inline size_t padded(int64_t columns) { return (static_cast<size_t>(columns) + 15) / 16 * 16; }

/// Up to 64 consecutive queries of one head.
template <class T>
struct QueryTile {
  const AttentionProblem<T>& problem;
  int64_t b;
  int64_t h;
  int64_t row;  // the first query
  int64_t rows;
  int64_t width;  // lanes in use: rows in whole vectors

  QueryTile(const AttentionProblem<T>& of, int64_t batch, int64_t head, int64_t tile)
      : problem(of),
        b(batch),
        h(head),
        row(tile * kQueryTile),
        rows(std::min(kQueryTile, of.queries - row)) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<Compute<T>>()));
    width = (rows + lanes - 1) / lanes * lanes;
  }

  /// Tiles of keys that some row may see by position: for (key = first_key(); key < end_key();
  /// key = next_key(key)). They start at multiples of the tile, whatever the row.
  int64_t first_key() const { return problem.prefix > 0 ? 0 : window_key(); }
  int64_t next_key(int64_t key) const {
    const int64_t next = key + kKeyTile;
    return next >= problem.prefix ? std::max(next, window_key()) : next;
  }
  int64_t end_key() const {
    return std::clamp(std::max(row + rows + problem.last, problem.prefix), int64_t{0},
                      problem.keys);
  }
  /// Whether all rows see all keys [key, key + count) by position.
  bool sees_all(int64_t key, int64_t count) const {
    return key + count <= problem.prefix ||
           (key >= row + rows - 1 + problem.first && key + count - 1 <= row + problem.last);
  }
  /// How many of the keys [key, key + count), from the first on, the rows before `end` may see.
  int64_t seen(int64_t key, int64_t count, int64_t end) const {
    const int64_t last = row + std::min(end, rows) - 1 + problem.last;
    return std::clamp(std::max(last + 1, problem.prefix) - key, int64_t{0}, count);
  }
  /// The first row that may see `key` or a later one.
  int64_t first_row(int64_t key) const {
    return key < problem.prefix ? 0 : std::clamp(key - problem.last - row, int64_t{0}, rows);
  }

 private:
  int64_t window_key() const {
    const int64_t first = std::clamp(row + problem.first, int64_t{0}, problem.keys);
    return first / kKeyTile * kKeyTile;
  }
};

/// The keys of one tile: which of them the whole query tile may not see.
struct KeyTile {
  int64_t key = 0;
  int64_t count = 0;
  bool some_hidden = false;  // some element of the tile is masked
  bool all_hidden = false;
  uint8_t hidden[kKeyTile];  // keys that no query sees: padding
};

template <class T>
KeyTile key_tile(const QueryTile<T>& queries, int64_t key, int64_t end) {
  const AttentionProblem<T>& p = queries.problem;
  KeyTile tile;
  tile.key = key;
  tile.count = std::min(kKeyTile, end - key);
  std::memset(tile.hidden, 0, sizeof tile.hidden);
  int64_t hidden = 0;
  for (const auto& mask : {p.key_padding, p.keep}) {
    if (mask.data == nullptr || mask.query != 0) {
      continue;
    }
    const uint8_t* first = mask.at(queries.b, queries.h, 0, key);
    for (int64_t j = 0; j < tile.count; ++j) {
      const uint8_t hide = first[j * mask.key] == 0 ? 1 : 0;
      hidden += hide & (tile.hidden[j] ^ 1);
      tile.hidden[j] |= hide;
    }
  }
  tile.all_hidden = hidden == tile.count;
  tile.some_hidden = hidden > 0 || !queries.sees_all(key, tile.count) ||
                     (p.keep.data != nullptr && p.keep.query != 0) || p.bias.data != nullptr;
  return tile;
}

/// The keys or values of a tile, for queries of one head.
template <class T>
HeadRows tile_rows(const QueryTile<T>& queries, const KeyTile& tile, int64_t columns) {
  return {queries.b, queries.problem.kv_head(queries.h), tile.key, tile.count, columns};
}

/// rows × columns of a head transposed to out [columns, 64], times factor; zero from there to
/// `width`.
template <class T, class C>
void pack_transposed(const T* in, int64_t stride, int64_t rows, int64_t width, int64_t columns,
                     double factor, C* out) {
  for (int64_t c = 0; c < columns && rows < width; ++c) {
    std::fill(out + c * kQueryTile + rows, out + c * kQueryTile + width, C{0});
  }
  transpose_scaled(in, static_cast<size_t>(stride), static_cast<size_t>(rows),
                   static_cast<size_t>(columns), static_cast<C>(factor), out, kQueryTile);
}

/// Terms of a sum that a step of a product adds.
template <class P>
inline constexpr int64_t kTerms = std::is_same_v<P, Bf16Pair> ? 2 : 1;

/// Rows of keys or values, in the type that a product reads.
template <class P>
struct KeyRows {
  const P* data;
  size_t stride;
};

/// s[j][i] = keys[j] · packed[.][i] (times factor[0] where S is Start::scale) for the pairs that
/// may see each other; the others may hold anything. `steps`: along the depth, of P.
template <Start S = Start::zero, class T, class P, class C>
HWY_NOINLINE void pair_products(const QueryTile<T>& queries, const KeyTile& tile, KeyRows<P> keys,
                                const P* packed, int64_t steps, C* s, const C* factor = nullptr) {
  const Product<C, P> all{.a = keys.data,
                          .lda = keys.stride,
                          .b = packed,
                          .ldb = size_t{kQueryTile},
                          .c = s,
                          .ldc = size_t{kQueryTile},
                          .rows = static_cast<size_t>(tile.count),
                          .columns = static_cast<size_t>(queries.width),
                          .depth = static_cast<size_t>(steps),
                          .factor = factor};
  if (queries.seen(tile.key, tile.count, 1) == tile.count) {
    product<S, false>(all);
    return;
  }
  product_of_triangle<S, false, true>(all, [&](size_t end) {
    return static_cast<size_t>(queries.seen(tile.key, tile.count, static_cast<int64_t>(end)));
  });
}

/// out[c][i] (+)= Σ_j rows[j][c] · s[j][i], where s is 0 for pairs that may not see each other.
template <Start S, class T, class P, class C>
HWY_NOINLINE void add_weighted(const QueryTile<T>& queries, const KeyTile& tile, KeyRows<P> rows,
                               const P* s, int64_t columns, const C* factor, C* out) {
  const auto steps = [](int64_t keys) {
    return static_cast<size_t>((keys + kTerms<P> - 1) / kTerms<P>);
  };
  const Product<C, P> all{.a = rows.data,
                          .lda = rows.stride,
                          .b = s,
                          .ldb = size_t{kQueryTile},
                          .c = out,
                          .ldc = size_t{kQueryTile},
                          .rows = static_cast<size_t>(columns),
                          .columns = static_cast<size_t>(queries.width),
                          .depth = steps(tile.count),
                          .factor = factor};
  if (queries.seen(tile.key, tile.count, 1) == tile.count) {
    product<S, true>(all);
    return;
  }
  product_of_triangle<S, true, false>(all, [&](size_t end) {
    return steps(queries.seen(tile.key, tile.count, static_cast<int64_t>(end)));
  });
}

/// s -> softcap · tanh(s / softcap), in units of log2; where `slope` is given it gets the
/// derivative.
template <class C>
void soft_cap(double softcap, int64_t lines, int64_t width, C* s, C* slope) {
  const hn::ScalableTag<C> d;
  const auto inward = hn::Set(d, static_cast<C>(kLn2 / softcap));
  const auto outward = hn::Set(d, static_cast<C>(kLog2e * softcap));
  for (int64_t j = 0; j < lines; ++j) {
    for (int64_t i = j * kQueryTile; i < j * kQueryTile + width;
         i += static_cast<int64_t>(hn::Lanes(d))) {
      const auto t = hn::Tanh(d, hn::Mul(hn::Load(d, s + i), inward));
      hn::Store(hn::Mul(t, outward), d, s + i);
      if (slope != nullptr) {
        hn::Store(hn::NegMulAdd(t, t, hn::Set(d, C{1})), d, slope + i);
      }
    }
  }
}

/// Masks by position: lane i sees key j where i + first <= j <= i + last, or j < prefix.
template <class T, class C>
void hide_by_position(const QueryTile<T>& queries, const KeyTile& tile, C* s) {
  const hn::ScalableTag<C> d;
  const auto minus_infinity = hn::Set(d, -std::numeric_limits<C>::infinity());
  const auto lane_limit = [](int64_t lane) {
    return static_cast<C>(std::clamp(lane, int64_t{-1}, kQueryTile));
  };
  for (int64_t j = std::max(int64_t{0}, queries.problem.prefix - tile.key); j < tile.count; ++j) {
    const int64_t place = tile.key + j - queries.row;
    const auto upper = hn::Set(d, lane_limit(place - queries.problem.first));
    const auto lower = hn::Set(d, lane_limit(place - queries.problem.last));
    C* line = s + j * kQueryTile;
    for (size_t i = 0; i < static_cast<size_t>(queries.width); i += hn::Lanes(d)) {
      const auto lane = hn::Iota(d, static_cast<C>(i));
      const auto visible = hn::And(hn::Le(lane, upper), hn::Ge(lane, lower));
      hn::Store(hn::IfThenElse(visible, hn::Load(d, line + i), minus_infinity), d, line + i);
    }
  }
}

/// line[j] = -inf where flags[j] is `hidden`: 0 in a mask of what to keep, 1 in one of what to
/// hide.
template <class C>
void hide_where(const uint8_t* flags, int64_t stride, bool hidden, int64_t count, C* line) {
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  const hn::ScalableTag<C> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int32_t, decltype(d)> whole;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; stride == 1 && j + lanes <= count; j += lanes) {
    const auto flag = hn::PromoteTo(whole, hn::LoadU(bytes, flags + j));
    hn::Vec<decltype(d)> number;
    if constexpr (sizeof(C) == 4) {
      number = hn::ConvertTo(d, flag);
    } else {
      number = hn::PromoteTo(d, flag);
    }
    const auto zero = hn::Eq(number, hn::Zero(d));
    const auto value = hn::LoadU(d, line + j);
    hn::StoreU(hidden ? hn::IfThenElse(zero, value, hn::Set(d, kHidden))
                      : hn::IfThenElse(zero, hn::Set(d, kHidden), value),
               d, line + j);
  }
  for (; j < count; ++j) {
    line[j] = (flags[j * stride] != 0) == hidden ? kHidden : line[j];
  }
}

/// line[j] += bias[j]·log2(e); a bias of -inf hides.
template <class C>
void add_bias(const C* bias, int64_t stride, int64_t count, C* line) {
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; stride == 1 && j + lanes <= count; j += lanes) {
    const auto value = hn::Mul(hn::LoadU(d, bias + j), hn::Set(d, static_cast<C>(kLog2e)));
    const auto hides = hn::Eq(value, hn::Set(d, kHidden));
    hn::StoreU(hn::IfThenElse(hides, value, hn::Add(hn::LoadU(d, line + j), value)), d, line + j);
  }
  for (; j < count; ++j) {
    const C value = bias[j * stride] * static_cast<C>(kLog2e);
    line[j] = value == kHidden ? kHidden : line[j] + value;
  }
}

/// Adds the bias and masks by `keep`, where these differ from query to query. The scores are
/// transposed so that the keys of a query lie side by side, as they do in bias and mask, and back.
template <class T, class C>
void add_bias_and_keep(const QueryTile<T>& queries, const KeyTile& tile, C* s) {
  const AttentionProblem<T>& p = queries.problem;
  HWY_ALIGN C rows[kQueryTile * kKeyTile];
  const auto keys = static_cast<size_t>(tile.count);
  const auto width = static_cast<size_t>(queries.width);
  transpose_scaled(s, size_t{kQueryTile}, keys, width, C{1}, rows, size_t{kKeyTile});
  for (int64_t i = 0; i < queries.rows; ++i) {
    C* row = rows + i * kKeyTile;
    if (p.bias.data != nullptr) {
      add_bias(p.bias.at(queries.b, queries.h, queries.row + i, tile.key), p.bias.key, tile.count,
               row);
    }
    if (p.keep.data != nullptr && p.keep.query != 0) {
      hide_where(p.keep.at(queries.b, queries.h, queries.row + i, tile.key), p.keep.key, false,
                 tile.count, row);
    }
  }
  transpose_scaled(rows, size_t{kKeyTile}, width, keys, C{1}, s, size_t{kQueryTile});
}

/// s[j][i]: products in units of log2 -> masked, biased scores; -inf where hidden. slope: the
/// soft-cap's derivative, or null.
template <class T, class C>
void finish_scores(const QueryTile<T>& queries, const KeyTile& tile, C* s, C* slope) {
  const AttentionProblem<T>& p = queries.problem;
  if (p.softcap > 0) {
    soft_cap(p.softcap, tile.count, queries.width, s, slope);
  }
  if (!tile.some_hidden) {
    return;
  }
  if (p.bias.data != nullptr || (p.keep.data != nullptr && p.keep.query != 0)) {
    add_bias_and_keep(queries, tile, s);
  }
  if (!queries.sees_all(tile.key, tile.count)) {
    hide_by_position(queries, tile, s);
  }
  for (int64_t j = 0; j < tile.count; ++j) {
    if (tile.hidden[j] != 0) {
      std::fill_n(s + j * kQueryTile, kQueryTile, -std::numeric_limits<C>::infinity());
    }
  }
}

/// s[j][i] = score of query i and key j, as above. packed: the queries [depth, 64] times
/// scale·log2(e).
template <class T, class C>
void score_tile(const QueryTile<T>& queries, const KeyTile& tile, const C* packed, KeyRows<C> k,
                C* s, C* slope) {
  pair_products(queries, tile, k, packed, queries.problem.depth, s);
  finish_scores(queries, tile, s, slope);
}

/// Rows of K or V that hold NaN or infinity, in a tile where some element is masked: 0 · NaN would
/// leak into rows that do not see the key. Such rows are zero in the copy that takes part in the
/// product, and added by hand to those that do see them.
template <class C>
struct PoisonedRows {
  int64_t count = 0;
  uint8_t row[kKeyTile];

  /// Returns the rows to use in the product: `in`, or `copy` where there are poisoned ones.
  const C* clean(const C* in, size_t* stride, int64_t rows, int64_t columns, C* copy) {
    const hn::ScalableTag<C> d;
    const auto n = static_cast<size_t>(columns);
    for (int64_t j = 0; j < rows; ++j) {
      const C* line = in + static_cast<size_t>(j) * *stride;
      auto zero = hn::Zero(d);  // stays 0 but for NaN and infinity: x - x
      size_t c = 0;
      for (; c + hn::Lanes(d) <= n; c += hn::Lanes(d)) {
        const auto x = hn::LoadU(d, line + c);
        zero = hn::Add(zero, hn::Sub(x, x));
      }
      C rest = 0;
      for (; c < n; ++c) {
        rest += line[c] - line[c];
      }
      if (!(rest == 0) || !hn::AllTrue(d, hn::Eq(zero, hn::Zero(d)))) {
        row[count++] = static_cast<uint8_t>(j);
      }
    }
    if (count == 0) {
      return in;
    }
    for (int64_t j = 0; j < rows; ++j) {
      std::memmove(copy + j * columns, in + static_cast<size_t>(j) * *stride, n * sizeof(C));
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memset(copy + row[i] * columns, 0, n * sizeof(C));
    }
    *stride = n;
    return copy;
  }

  /// out[column][lane] += weight[j][lane] · in[j][column] for the poisoned j, in the lanes whose
  /// score is not -inf.
  void add(const C* in, size_t stride, int64_t columns, const C* weights, const C* scores,
           int64_t lanes, C* out) const {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const size_t at = static_cast<size_t>(row[i]) * kQueryTile + static_cast<size_t>(lane);
        if (scores[at] == -std::numeric_limits<C>::infinity()) {
          continue;
        }
        for (int64_t c = 0; c < columns; ++c) {
          out[c * kQueryTile + lane] += weights[at] * in[row[i] * stride + static_cast<size_t>(c)];
        }
      }
    }
  }
};

/// Keeps the scores of a tile, from which PoisonedRows tells who sees whom.
template <class C>
void keep_scores(const C* s, int64_t count, C* scores) {
  std::memcpy(scores, s, static_cast<size_t>(count * kQueryTile) * sizeof(C));
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ATTENTION_TILE_INL_H_
