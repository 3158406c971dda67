// Dropout of attention weights: random factors of a tile from its position alone. Per-target code:
// include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_DROPOUT_INL_H_
#undef HEED_KERNELS_ATTENTION_DROPOUT_INL_H_
#else
#define HEED_KERNELS_ATTENTION_DROPOUT_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// The high and low halves of the 64-bit products of u32 lanes with a constant.
template <class D>
HWY_INLINE void multiply_wide(D d, hn::Vec<D> x, uint32_t constant, hn::Vec<D>* high,
                              hn::Vec<D>* low) {
  const hn::RepartitionToWide<D> d64;
  const auto factor = hn::Set(d, constant);
  const auto even = hn::MulEven(x, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, x))), factor);
  *high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  *low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

/// heed::philox() of (seed, stream, row << 32 | group) for one row a lane: words for four keys.
template <class D>
HWY_INLINE void philox_lanes(D d, RandomKey key, uint32_t group, hn::Vec<D> row,
                             hn::Vec<D> word[4]) {
  auto c0 = hn::Set(d, group);
  auto c1 = row;
  auto c2 = hn::Set(d, static_cast<uint32_t>(key.stream));
  auto c3 = hn::Set(d, static_cast<uint32_t>(key.stream >> 32));
  auto k0 = static_cast<uint32_t>(key.seed);
  auto k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    hn::Vec<D> high0, low0, high1, low1;
    multiply_wide(d, c0, 0xD2511F53u, &high0, &low0);
    multiply_wide(d, c2, 0xCD9E8D57u, &high1, &low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  word[0] = c0;
  word[1] = c1;
  word[2] = c2;
  word[3] = c3;
}

/// factors[j][lane] of dropout for a tile: 0 or 1/(1-p). The same whatever surrounds the tile.
template <class T, class C>
void dropout_tile(const QueryTile<T>& queries, const KeyTile& tile, C* factors) {
  const AttentionProblem<T>& p = queries.problem;
  const hn::ScalableTag<uint32_t> d;
  RandomKey key = p.random;
  key.stream += static_cast<uint64_t>(queries.b * p.heads + queries.h) << 40;
  const auto threshold = hn::Set(d, static_cast<uint32_t>(p.dropout * 4294967296.0));
  const C factor = static_cast<C>(1.0 / (1.0 - p.dropout));
  HWY_ALIGN uint32_t kept[hn::MaxLanes(d)];
  for (int64_t j = 0; j < tile.count; j += 4) {
    for (size_t i = 0; i < static_cast<size_t>(queries.width); i += hn::Lanes(d)) {
      hn::Vec<decltype(d)> word[4];
      const auto row = hn::Iota(d, static_cast<uint32_t>(queries.row) + static_cast<uint32_t>(i));
      philox_lanes(d, key, static_cast<uint32_t>((tile.key + j) / 4), row, word);
      for (int64_t n = 0; n < std::min(int64_t{4}, tile.count - j); ++n) {
        hn::Store(hn::VecFromMask(d, hn::Eq(hn::Max(word[n], threshold), word[n])), d, kept);
        C* line = factors + (j + n) * kQueryTile + static_cast<int64_t>(i);
        for (size_t lane = 0; lane < hn::Lanes(d); ++lane) {
          line[lane] = kept[lane] != 0 ? factor : C{0};
        }
      }
    }
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ATTENTION_DROPOUT_INL_H_
