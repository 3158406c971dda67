// Counter-based random words, per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_RANDOM_INL_H_
#undef HEED_KERNELS_RANDOM_INL_H_
#else
#define HEED_KERNELS_RANDOM_INL_H_
#endif
// clang-format on

#include "heed/runtime.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// The keys of Philox's rounds, one per lane.
struct PhiloxKeys {
  static constexpr size_t kRounds = 10;
  using D = hn::ScalableTag<uint64_t>;
  HWY_ALIGN uint64_t first[kRounds * hn::MaxLanes(D())];
  HWY_ALIGN uint64_t second[kRounds * hn::MaxLanes(D())];

  explicit PhiloxKeys(uint64_t seed) {
    const D d;
    for (size_t round = 0; round < kRounds; ++round) {
      const auto k0 = static_cast<uint32_t>(seed + round * 0x9E3779B9u);
      const auto k1 = static_cast<uint32_t>((seed >> 32) + round * 0xBB67AE85u);
      hn::Store(hn::Set(d, uint64_t{k0}), d, first + round * hn::Lanes(d));
      hn::Store(hn::Set(d, uint64_t{k1}), d, second + round * hn::Lanes(d));
    }
  }
};

/// Words of `vectors` vectors of consecutive positions of heed::philox, four per position. A
/// position has a 64-bit lane; its four words live in the low halves, the high halves hold rubbish
/// that MulEven does not read. Vectors go through a round together: each waits for its own
/// products.
template <size_t vectors>
HWY_INLINE void philox_vectors(uint64_t* pairs, const PhiloxKeys& keys, uint64_t stream,
                               uint64_t position) {
  const hn::ScalableTag<uint64_t> d;
  using Vec = hn::Vec<decltype(d)>;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto m0 = hn::Set(d32, 0xD2511F53u);
  const auto m1 = hn::Set(d32, 0xCD9E8D57u);
  const auto low = hn::Set(d, 0xffffffffu);
  const size_t lanes = hn::Lanes(d);
  Vec c0[vectors], c1[vectors], c2[vectors], c3[vectors];
  for (size_t v = 0; v < vectors; ++v) {
    c0[v] = hn::Iota(d, position + v * lanes);
    c1[v] = hn::ShiftRight<32>(c0[v]);
    c2[v] = hn::Set(d, stream & 0xffffffffu);
    c3[v] = hn::Set(d, stream >> 32);
  }
  for (size_t round = 0; round < PhiloxKeys::kRounds; ++round) {
    const auto k0 = hn::Load(d, keys.first + round * lanes);
    const auto k1 = hn::Load(d, keys.second + round * lanes);
    for (size_t v = 0; v < vectors; ++v) {
      const auto p0 = hn::MulEven(hn::BitCast(d32, c0[v]), m0);
      const auto p1 = hn::MulEven(hn::BitCast(d32, c2[v]), m1);
      c0[v] = hn::Xor3(hn::ShiftRight<32>(p1), c1[v], k0);
      c1[v] = p1;
      c2[v] = hn::Xor3(hn::ShiftRight<32>(p0), c3[v], k1);
      c3[v] = p0;
    }
  }
  for (size_t v = 0; v < vectors; ++v) {
    const auto first_half = hn::Or(hn::And(c0[v], low), hn::ShiftLeft<32>(c1[v]));
    const auto second_half = hn::Or(hn::And(c2[v], low), hn::ShiftLeft<32>(c3[v]));
    hn::StoreInterleaved2(first_half, second_half, d, pairs + 2 * v * lanes);
  }
}

/// Words of `blocks` consecutive positions of heed::philox, four each.
HWY_INLINE void philox_blocks(uint32_t* words, RandomKey key, uint64_t first, size_t blocks) {
  constexpr size_t kVectors = 4;
  const PhiloxKeys keys(key.seed);
  const hn::ScalableTag<uint64_t> d;
  const size_t lanes = hn::Lanes(d);
  size_t block = 0;
  for (; block + kVectors * lanes <= blocks; block += kVectors * lanes) {
    philox_vectors<kVectors>(reinterpret_cast<uint64_t*>(words + 4 * block), keys, key.stream,
                             first + block);
  }
  HWY_ALIGN uint64_t buffer[2 * hn::MaxLanes(d)];
  for (; block < blocks; block += lanes) {
    philox_vectors<1>(buffer, keys, key.stream, first + block);
    std::memcpy(words + 4 * block, buffer, HWY_MIN(lanes, blocks - block) * 16);
  }
}

/// Lanes of `d` whose word is at or above the threshold.
template <class D>
HWY_INLINE hn::Mask<D> kept(D d, const uint32_t* words, uint32_t threshold) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint32_t, D> d32;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::RebindMask(d, hn::Not(hn::Lt(hn::LoadU(d32, words), hn::Set(du, threshold))));
  } else {
    const hn::RebindToSigned<D> di;  // words fit, and signed comparison is the cheap one
    const auto wide = hn::BitCast(di, hn::PromoteTo(du, hn::LoadU(d32, words)));
    return hn::RebindMask(d, hn::Gt(wide, hn::Set(di, int64_t{threshold} - 1)));
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_RANDOM_INL_H_
