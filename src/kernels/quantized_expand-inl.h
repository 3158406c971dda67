// Blocks of weights as bytes in registers: what the products of block types share. Per target:
// include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_QUANTIZED_EXPAND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_QUANTIZED_EXPAND_INL_H_
#undef HEED_KERNELS_QUANTIZED_EXPAND_INL_H_
#else
#define HEED_KERNELS_QUANTIZED_EXPAND_INL_H_
#endif
// clang-format on

#include <cstring>

#include "kernels/quantized_blocks.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// 32 weights in one vector or two.
using ByteTag = hn::CappedTag<uint8_t, 32>;
using ByteVec = hn::Vec<ByteTag>;
using ShortTag = hn::Repartition<int16_t, ByteTag>;
using ShortVec = hn::Vec<ShortTag>;
constexpr auto kByteLanes = static_cast<int64_t>(hn::MaxLanes(ByteTag()));
constexpr int64_t kPieces = 32 / kByteLanes;

/// 16 small factors, one per 16 weights. The factors with an even index come first, then the odd
/// ones: lane j of the first half belongs to the first half of the weights' vector j.
struct Factors {
  // Written out: GCC 12 generates it outside of this target, where NEON's vectors cannot be made.
  HWY_INLINE Factors() {}

  ShortVec lanes[kPieces];
};

using Block16 = hn::FixedTag<uint8_t, 16>;
using Vec16 = hn::Vec<Block16>;

/// `Signed`: the bytes are from −127 to 127; otherwise from 0 to 63.
template <bool Signed, class D16 = ShortTag>
HWY_INLINE Factors factors_of(Vec16 ordered) {
  using T = std::conditional_t<Signed, int8_t, uint8_t>;
  const hn::FixedTag<T, 16> d8;
  const auto v = hn::BitCast(d8, ordered);
  Factors factors;
  if constexpr (hn::MaxLanes(D16()) == 16) {
    factors.lanes[0] = hn::PromoteTo(D16(), v);
  } else {
    factors.lanes[0] = hn::PromoteTo(D16(), hn::LowerHalf(v));
    factors.lanes[1] = hn::PromoteTo(D16(), hn::UpperHalf(hn::Half<decltype(d8)>(), v));
  }
  return factors;
}
/// 16 bytes in their natural order, brought into that of Factors.
HWY_INLINE Vec16 evens_then_odds(Vec16 v) {
  alignas(16) static constexpr uint8_t kOrder[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                     1, 3, 5, 7, 9, 11, 13, 15};
  return hn::TableLookupBytes(v, hn::Load(Block16(), kOrder));
}
/// 8 bytes for 32 weights each.
template <bool Signed>
HWY_INLINE Factors factors_of_8(uint64_t bytes) {
  const hn::FixedTag<uint64_t, 2> d;
  return factors_of<Signed>(hn::BitCast(Block16(), hn::Set(d, bytes)));
}
/// Of unpacked blocks, in natural order.
HWY_INLINE Factors factors_of_shorts(const int16_t* shorts) {
  HWY_ALIGN int16_t ordered[16];
  for (int j = 0; j < 8; ++j) {
    ordered[j] = shorts[2 * j];
    ordered[8 + j] = shorts[2 * j + 1];
  }
  Factors factors;
  for (int64_t piece = 0; piece < kPieces; ++piece) {
    factors.lanes[piece] = hn::Load(ShortTag(), ordered + 8 * piece);
  }
  return factors;
}

/// Bits of bytes moved right (or left, where negative), across byte borders: mask what comes in.
template <int bits>
HWY_INLINE ByteVec moved(ByteVec v) {
  const ByteTag d;
  const hn::Repartition<uint16_t, ByteTag> d16;
  if constexpr (bits == 0) {
    return v;
  } else if constexpr (bits > 0) {
    return hn::BitCast(d, hn::ShiftRight<bits>(hn::BitCast(d16, v)));
  } else {
    return hn::BitCast(d, hn::ShiftLeft<-bits>(hn::BitCast(d16, v)));
  }
}
template <int bits>
HWY_INLINE ByteVec masked(ByteVec v, uint8_t mask) {
  return hn::And(moved<bits>(v), hn::Set(ByteTag(), mask));
}

HWY_INLINE ByteVec bytes_at(const void* p, int64_t piece) {
  return hn::LoadU(ByteTag(), static_cast<const uint8_t*>(p) + kByteLanes * piece);
}

/// 16 bytes of two numbers each: the low halves, then the high ones.
template <class D = ByteTag>
HWY_INLINE void nibbles(const uint8_t* pairs, hn::Vec<D>* values) {
  const Block16 d;
  const auto both = hn::LoadU(d, pairs);
  const auto low = hn::And(both, hn::Set(d, uint8_t{15}));
  const hn::Repartition<uint16_t, Block16> d16;
  const auto high =
      hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, both))), hn::Set(d, uint8_t{15}));
  // Depends on D, so that a compiler does not look at the branch that does not fit.
  if constexpr (hn::MaxLanes(D()) == 32) {
    values[0] = hn::Combine(D(), high, low);
  } else {
    values[0] = low;
    values[1] = high;
  }
}
HWY_INLINE ByteVec looked_up(const int8_t* table, ByteVec indices) {
  const ByteTag d;
  const hn::Repartition<int8_t, ByteTag> signed_bytes;
  return hn::BitCast(d, hn::TableLookupBytes(hn::LoadDup128(signed_bytes, table), indices));
}
/// Byte i is 16 where bit i of 32 is set.
HWY_INLINE void add_fifth_bits(const uint8_t* high, ByteVec* values) {
  const ByteTag d;
  uint32_t bits;
  std::memcpy(&bits, high, sizeof bits);
  const hn::Repartition<uint32_t, ByteTag> d32;
  const auto all = hn::BitCast(d, hn::Set(d32, bits));
  alignas(32) static constexpr uint8_t kByte[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                                    2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
  const hn::Repartition<uint64_t, ByteTag> d64;
  const auto bit = hn::BitCast(d, hn::Set(d64, uint64_t{0x8040201008040201u}));
  for (int64_t piece = 0; piece < kPieces; ++piece) {
    const auto mine = hn::TableLookupBytes(all, bytes_at(kByte, piece));
    const auto set = hn::VecFromMask(d, hn::Eq(hn::And(mine, bit), bit));
    values[piece] = hn::Or(values[piece], hn::And(set, hn::Set(d, uint8_t{16})));
  }
}

/// How a block's weights become bytes. kSigned: they are as they are; otherwise unsigned and
/// kOffset too large. `values` is [weights / 32][kPieces]. Scale is Half where the block stores it
/// so. Blocks without a specialisation go through unpack().
template <class Block>
struct Expand {
  using Scale = float;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr bool kMins = false;

  explicit Expand(const Block& block) { unpack(block, whole); }
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    for (int64_t j = 0; j < kBlockWeights<Block> / 32; ++j) {
      for (int64_t piece = 0; piece < kPieces; ++piece) {
        v[j][piece] = bytes_at(whole.values + 32 * j, piece);
      }
    }
  }
  HWY_INLINE Factors scales() const { return factors_of_shorts(whole.scales); }
  Scale scale() const { return whole.scale; }

  UnpackedBlock whole;
};

/// What blocks of 32 share.
template <class Block>
struct ExpandPairs {
  using Scale = Half;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr bool kMins = false;
  explicit ExpandPairs(const Block& from) : block(from) {}
  Half scale() const { return block.scale; }
  const Block& block;
};

template <>
struct Expand<BlockQ4_1> : ExpandPairs<BlockQ4_1> {
  static constexpr bool kMins = true;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const { nibbles(block.pairs, v[0]); }
  Half min() const { return {static_cast<uint16_t>(block.min.bits ^ 0x8000)}; }
};
template <>
struct Expand<BlockQ5_0> : ExpandPairs<BlockQ5_0> {
  static constexpr int kOffset = 16;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    nibbles(block.pairs, v[0]);
    add_fifth_bits(block.high, v[0]);
  }
};
template <>
struct Expand<BlockQ5_1> : ExpandPairs<BlockQ5_1> {
  static constexpr bool kMins = true;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    nibbles(block.pairs, v[0]);
    add_fifth_bits(block.high, v[0]);
  }
  Half min() const { return {static_cast<uint16_t>(block.min.bits ^ 0x8000)}; }
};
template <>
struct Expand<BlockIQ4NL> : ExpandPairs<BlockIQ4NL> {
  static constexpr bool kSigned = true;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    nibbles(block.pairs, v[0]);
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      v[0][piece] = looked_up(kIQ4Values, v[0][piece]);
    }
  }
};
template <>
struct Expand<BlockMXFP4> : ExpandPairs<BlockMXFP4> {
  using Scale = float;
  static constexpr bool kSigned = true;
  using ExpandPairs::ExpandPairs;
  HWY_INLINE void values(ByteVec (*v)[kPieces]) const {
    nibbles(block.pairs, v[0]);
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      v[0][piece] = looked_up(kFP4Values, v[0][piece]);
    }
  }
  float scale() const {  // 2^(exponent − 128); the two smallest are subnormal
    const uint32_t bits = block.exponent < 2 ? 0x00200000u << block.exponent
                                             : static_cast<uint32_t>(block.exponent - 1) << 23;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_QUANTIZED_EXPAND_INL_H_
