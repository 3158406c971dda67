// Counter-based random words, per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_RANDOM_INL_H_
#undef HEED_KERNELS_RANDOM_INL_H_
#else
#define HEED_KERNELS_RANDOM_INL_H_
#endif
// clang-format on

#include "heed/random.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Words of `blocks` consecutive positions of heed::philox, four each. A block has a 64-bit lane;
/// its four words live in the low halves, the high halves hold rubbish that MulEven does not read.
HWY_INLINE void philox_blocks(uint32_t* words, RandomKey key, uint64_t first, size_t blocks) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto multiply = [d32](auto a, auto b)
                            HWY_ATTR { return hn::MulEven(hn::BitCast(d32, a), b); };
  const auto m0 = hn::Set(d32, 0xD2511F53u);
  const auto m1 = hn::Set(d32, 0xCD9E8D57u);
  const auto low = hn::Set(d, 0xffffffffu);
  constexpr int kRounds = 10;
  HWY_ALIGN uint64_t keys0[kRounds * hn::MaxLanes(d)];
  HWY_ALIGN uint64_t keys1[kRounds * hn::MaxLanes(d)];
  const size_t lanes = hn::Lanes(d);
  for (size_t round = 0; round < kRounds; ++round) {
    const auto k0 = static_cast<uint32_t>(key.seed + round * 0x9E3779B9u);
    const auto k1 = static_cast<uint32_t>((key.seed >> 32) + round * 0xBB67AE85u);
    hn::Store(hn::Set(d, uint64_t{k0}), d, keys0 + round * lanes);
    hn::Store(hn::Set(d, uint64_t{k1}), d, keys1 + round * lanes);
  }
  HWY_ALIGN uint64_t buffer[2 * hn::MaxLanes(d)];
  for (size_t block = 0; block < blocks; block += lanes) {
    const auto position = hn::Iota(d, first + block);
    auto c0 = position;
    auto c1 = hn::ShiftRight<32>(position);
    auto c2 = hn::Set(d, key.stream & 0xffffffffu);
    auto c3 = hn::Set(d, key.stream >> 32);
    for (size_t round = 0; round < kRounds; ++round) {
      const auto p0 = multiply(c0, m0);
      const auto p1 = multiply(c2, m1);
      c0 = hn::Xor3(hn::ShiftRight<32>(p1), c1, hn::Load(d, keys0 + round * lanes));
      c1 = p1;
      c2 = hn::Xor3(hn::ShiftRight<32>(p0), c3, hn::Load(d, keys1 + round * lanes));
      c3 = p0;
    }
    const auto first_half = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto second_half = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(first_half, second_half, d, buffer);
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
