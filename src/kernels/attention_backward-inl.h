// What the backward passes of attention share. Per-target code: include inside foreach_target
// files.
// clang-format off
#if defined(HEED_KERNELS_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BACKWARD_INL_H_
#undef HEED_KERNELS_ATTENTION_BACKWARD_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BACKWARD_INL_H_
#endif
// clang-format on

#include <vector>

#include "kernels/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// c += a · b with b [depth, padded columns]: the last lanes of a row of c may belong to others.
template <class P, class T>
void add_rows(Product<T, P> of) {
  const hn::ScalableTag<T> d;
  const size_t columns = of.columns;
  const size_t whole = columns / hn::Lanes(d) * hn::Lanes(d);
  of.columns = whole;
  product<Start::add, false>(of);
  if (whole == columns) {
    return;
  }
  HWY_ALIGN T rest[kKeyTile * hn::MaxLanes(d)];
  Product<T, P> last = of;
  last.b += whole;
  last.c = rest;
  last.ldc = hn::Lanes(d);
  last.columns = hn::Lanes(d);
  product<Start::zero, false>(last);
  for (size_t j = 0; j < of.rows; ++j) {
    for (size_t i = whole; i < columns; ++i) {
      of.c[j * of.ldc + i] += rest[j * hn::Lanes(d) + i - whole];
    }
  }
}

/// The gradient of keys or values: rows of `columns` numbers, `stride` apart.
template <class C>
struct KeyGradient {
  C* data;
  int64_t stride;
  int64_t columns;
};

/// gradient[j] += Σ_i s[j][i] · rows[i] for the keys of a tile. The first keys are seen by more
/// rows than the last under a causal mask, so a quarter at a time.
template <class T, class P, class C>
void add_to_keys(const QueryTile<T>& queries, const KeyTile& tile, const P* s, size_t s_stride,
                 const P* rows, const KeyGradient<C>& gradient) {
  const auto [data, stride, columns] = gradient;
  constexpr int64_t kKeys = 18;  // three blocks of the product
  const auto line = static_cast<int64_t>(padded(columns));
  for (int64_t j = 0; j < tile.count; j += kKeys) {
    const int64_t first = queries.first_row(tile.key + j) / kTerms<P>;  // step
    const int64_t steps = (queries.rows + kTerms<P> - 1) / kTerms<P> - first;
    const int64_t count = first == 0 && queries.first_row(tile.key + tile.count - 1) == 0
                              ? tile.count
                              : std::min(kKeys, tile.count - j);
    add_rows(Product<C, P>{.a = s + static_cast<size_t>(j) * s_stride + first,
                           .lda = s_stride,
                           .b = rows + first * line,
                           .ldb = padded(columns),
                           .c = data + j * stride,
                           .ldc = static_cast<size_t>(stride),
                           .rows = static_cast<size_t>(count),
                           .columns = static_cast<size_t>(columns),
                           .depth = static_cast<size_t>(steps)});
    if (count == tile.count) {
      return;
    }
  }
}

template <class T, class C>
void add_bias_gradient(const QueryTile<T>& queries, const KeyTile& tile, const ScoreView<C>& dbias,
                       const C* ds) {
  for (int64_t i = 0; i < queries.rows; ++i) {
    C* into = dbias.at(queries.b, queries.h, queries.row + i, tile.key);
    for (int64_t j = 0; j < tile.count; ++j) {
      into[j * dbias.key] += ds[j * kQueryTile + i];
    }
  }
}

/// Calls fn(tile of queries, tile of keys) for those that see each other. A tile of keys with its
/// gradients stays in L2 for all tiles of queries that see it.
template <class T, class Tile, class Fn>
void each_pair_of_tiles(const AttentionProblem<T>& p, std::vector<Tile>& tiles, Fn&& fn) {
  while (true) {
    int64_t key = p.keys;
    for (const Tile& mine : tiles) {
      key = mine.key < mine.end ? std::min(key, mine.key) : key;
    }
    if (key == p.keys) {
      return;
    }
    for (Tile& mine : tiles) {
      if (mine.key != key || key >= mine.end) {
        continue;
      }
      const KeyTile tile = key_tile(mine.queries, key, mine.end);
      if (!tile.all_hidden) {
        fn(mine, tile);
      }
      mine.key = mine.queries.next_key(key);
    }
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ATTENTION_BACKWARD_INL_H_
