// Superblocks as bytes in registers: see kernels/quantized_expand-inl.h.
// clang-format off
#if defined(HEED_KERNELS_QUANTIZED_EXPAND_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_QUANTIZED_EXPAND_K_INL_H_
#undef HEED_KERNELS_QUANTIZED_EXPAND_K_INL_H_
#else
#define HEED_KERNELS_QUANTIZED_EXPAND_K_INL_H_
#endif
// clang-format on

#include "kernels/quantized_expand-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// The packed scales and minima of Q4_K and Q5_K.
template <class Block>
struct ExpandQ45K {
  using Scale = Half;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr bool kMins = true;
  explicit ExpandQ45K(const Block& from) : block(from) {
    std::memcpy(packed, from.scales, sizeof packed);
  }
  HWY_INLINE Factors scales() const {
    return factors_of_8<false>(joined(packed[0], packed[2] & 0x0f0f0f0f));
  }
  HWY_INLINE Factors mins() const {
    return factors_of_8<false>(joined(packed[1], (packed[2] >> 4) & 0x0f0f0f0f));
  }
  Half scale() const { return block.scale; }
  Half min() const { return block.min; }
  static uint64_t joined(uint32_t low, uint32_t high) {
    return (low & 0x3f3f3f3f) | static_cast<uint64_t>(high | ((low >> 2) & 0x30303030)) << 32;
  }
  const Block& block;
  uint32_t packed[3];
};

template <>
struct Expand<BlockQ4K> : ExpandQ45K<BlockQ4K> {
  using ExpandQ45K::ExpandQ45K;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    HWY_UNROLL(4)
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t piece = 0; piece < kPieces; ++piece) {
        const auto both = bytes_at(block.pairs + 32 * i, piece);
        v[2 * i][piece] = masked<0>(both, 15);
        v[2 * i + 1][piece] = masked<4>(both, 15);
      }
    }
  }
};
template <>
struct Expand<BlockQ5K> : ExpandQ45K<BlockQ5K> {
  using ExpandQ45K::ExpandQ45K;
  template <int i>
  HWY_INLINE void two(ByteVec (*v)[kPieces]) const {
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      const auto both = bytes_at(block.pairs + 32 * i, piece);
      const auto high = bytes_at(block.high, piece);
      v[2 * i][piece] = hn::Or(masked<0>(both, 15), masked<2 * i - 4>(high, 16));
      v[2 * i + 1][piece] = hn::Or(masked<4>(both, 15), masked<2 * i - 3>(high, 16));
    }
  }
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    two<0>(v);
    two<1>(v);
    two<2>(v);
    two<3>(v);
  }
};

template <>
struct Expand<BlockQ6K> : ExpandPairs<BlockQ6K> {
  static constexpr int kOffset = 32;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    HWY_UNROLL(2)
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t piece = 0; piece < kPieces; ++piece) {
        const auto first = bytes_at(block.pairs + 64 * half, piece);
        const auto second = bytes_at(block.pairs + 64 * half + 32, piece);
        const auto high = bytes_at(block.high + 32 * half, piece);
        v[4 * half][piece] = hn::Or(masked<0>(first, 15), masked<-4>(high, 48));
        v[4 * half + 1][piece] = hn::Or(masked<0>(second, 15), masked<-2>(high, 48));
        v[4 * half + 2][piece] = hn::Or(masked<4>(first, 15), masked<0>(high, 48));
        v[4 * half + 3][piece] = hn::Or(masked<4>(second, 15), masked<2>(high, 48));
      }
    }
  }
  HWY_INLINE Factors scales() const {
    const auto bytes = hn::LoadU(Block16(), reinterpret_cast<const uint8_t*>(block.scales));
    return factors_of<true>(evens_then_odds(bytes));
  }
};

/// Two bits per weight: each 32 bytes hold four runs of 32.
HWY_INLINE void expand_quads(const uint8_t* quads, ByteVec (*v)[kPieces]) {
  HWY_UNROLL(2)
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      const auto four = bytes_at(quads + 32 * half, piece);
      v[4 * half][piece] = masked<0>(four, 3);
      v[4 * half + 1][piece] = masked<2>(four, 3);
      v[4 * half + 2][piece] = masked<4>(four, 3);
      v[4 * half + 3][piece] = masked<6>(four, 3);
    }
  }
}

template <>
struct Expand<BlockQ2K> : ExpandPairs<BlockQ2K> {
  static constexpr bool kMins = true;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const { expand_quads(block.quads, v); }
  HWY_INLINE Vec16 both() const { return evens_then_odds(hn::LoadU(Block16(), block.scales)); }
  HWY_INLINE Factors scales() const {
    return factors_of<false>(hn::And(both(), hn::Set(Block16(), uint8_t{15})));
  }
  HWY_INLINE Factors mins() const {
    const hn::Repartition<uint16_t, Block16> d16;
    const auto high = hn::BitCast(Block16(), hn::ShiftRight<4>(hn::BitCast(d16, both())));
    return factors_of<false>(hn::And(high, hn::Set(Block16(), uint8_t{15})));
  }
  Half min() const { return block.min; }
};

template <>
struct Expand<BlockQ3K> : ExpandPairs<BlockQ3K> {
  static constexpr int kOffset = 4;
  using ExpandPairs::ExpandPairs;
  template <int j>
  HWY_INLINE void add_high(ByteVec (*v)[kPieces]) const {
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      v[j][piece] = hn::Or(v[j][piece], masked<j - 2>(bytes_at(block.high, piece), 4));
    }
    if constexpr (j > 0) {
      add_high<j - 1>(v);
    }
  }
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    expand_quads(block.quads, v);
    add_high<7>(v);
  }
  HWY_INLINE Factors scales() const {
    uint32_t packed[3];
    std::memcpy(packed, block.scales, sizeof packed);
    const auto quad = [&](uint32_t low, int shift) {
      return (low & 0x0f0f0f0f) | ((packed[2] >> shift) & 0x03030303) << 4;
    };
    const uint32_t bytes[4] = {quad(packed[0], 0), quad(packed[1], 2), quad(packed[0] >> 4, 4),
                               quad(packed[1] >> 4, 6)};
    const hn::FixedTag<uint32_t, 4> d32;
    const auto natural = hn::BitCast(Block16(), hn::LoadU(d32, bytes));
    const auto moved = hn::Sub(natural, hn::Set(Block16(), uint8_t{32}));
    return factors_of<true>(evens_then_odds(moved));
  }
};

template <>
struct Expand<BlockIQ4XS> : ExpandPairs<BlockIQ4XS> {
  static constexpr bool kSigned = true;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    HWY_UNROLL(8)
    for (int64_t j = 0; j < 8; ++j) {
      nibbles(block.pairs + 16 * j, v[j]);
      for (int64_t piece = 0; piece < kPieces; ++piece) {
        v[j][piece] = looked_up(kIQ4Values, v[j][piece]);
      }
    }
  }
  HWY_INLINE Factors scales() const {
    uint64_t bytes = 0;
    for (int j = 0; j < 8; ++j) {
      const int low = (block.scales_low[j / 2] >> (4 * (j % 2))) & 15;
      const int high = (block.scales_high >> (2 * j)) & 3;
      bytes |= static_cast<uint64_t>(static_cast<uint8_t>((low | high << 4) - 32)) << (8 * j);
    }
    return factors_of_8<true>(bytes);
  }
};

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_QUANTIZED_EXPAND_K_INL_H_
