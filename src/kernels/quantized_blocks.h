#pragma once

#include <cstdint>

#include "heed/runtime.h"
#include "kernels/types.h"

namespace heed::kernels {

inline constexpr int64_t kBlock = 32;        // weights of a plain block
inline constexpr int64_t kSuperblock = 256;  // weights of a superblock

// GGUF's blocks as they lie in a file. `pairs` are bytes of two 4-bit numbers, `quads` of four
// 2-bit ones. docs/formats/gguf.md says what a weight is; unpack() is the only code that knows the
// layout, apart from the SIMD paths that the tests compare with it.
struct BlockQ8 {
  Half scale;
  int8_t values[kBlock];
};
struct BlockQ4 {
  Half scale;
  uint8_t pairs[kBlock / 2];  // low nibbles: weights 0 … 15; high nibbles: 16 … 31
};
struct BlockQ4_1 {
  Half scale;
  Half min;
  uint8_t pairs[kBlock / 2];
};
struct BlockQ5_0 {
  Half scale;
  uint8_t high[kBlock / 8];  // bit i: the fifth bit of weight i
  uint8_t pairs[kBlock / 2];
};
struct BlockQ5_1 {
  Half scale;
  Half min;
  uint8_t high[kBlock / 8];
  uint8_t pairs[kBlock / 2];
};
struct BlockQ2K {
  uint8_t scales[kSuperblock / 16];  // low nibble: scale, high nibble: minimum
  uint8_t quads[kSuperblock / 4];
  Half scale;
  Half min;
};
struct BlockQ3K {
  uint8_t high[kSuperblock / 8];
  uint8_t quads[kSuperblock / 4];
  uint8_t scales[12];  // 16 of 6 bits
  Half scale;
};
struct BlockQ4K {
  Half scale;
  Half min;
  uint8_t scales[12];  // 8 scales and 8 minima of 6 bits
  uint8_t pairs[kSuperblock / 2];
};
struct BlockQ5K {
  Half scale;
  Half min;
  uint8_t scales[12];
  uint8_t high[kSuperblock / 8];
  uint8_t pairs[kSuperblock / 2];
};
struct BlockQ6K {
  uint8_t pairs[kSuperblock / 2];
  uint8_t high[kSuperblock / 4];
  int8_t scales[kSuperblock / 16];
  Half scale;
};
struct BlockIQ4NL {
  Half scale;
  uint8_t pairs[kBlock / 2];
};
struct BlockIQ4XS {
  Half scale;
  uint16_t scales_high;
  uint8_t scales_low[kSuperblock / 64];
  uint8_t pairs[kSuperblock / 2];
};
struct BlockMXFP4 {
  uint8_t exponent;
  uint8_t pairs[kBlock / 2];
};
struct BlockIQ2XXS {
  Half scale;
  uint8_t groups[kSuperblock / 4];  // per 32 weights: 4 grid indices, then u32 of signs and scale
};
struct BlockIQ2XS {
  Half scale;
  uint16_t indices[kSuperblock / 8];  // per 8 weights: 9 bits of grid index, 7 of signs
  uint8_t scales[kSuperblock / 32];
};
struct BlockIQ2S {
  Half scale;
  uint8_t indices[kSuperblock / 8];
  uint8_t signs[kSuperblock / 8];
  uint8_t high[kSuperblock / 32];
  uint8_t scales[kSuperblock / 32];
};
struct BlockIQ3XXS {
  Half scale;
  uint8_t indices[kSuperblock / 4];
  uint8_t signs[kSuperblock / 8];  // u32 per 32 weights: signs and scale
};
struct BlockIQ3S {
  Half scale;
  uint8_t indices[kSuperblock / 4];
  uint8_t high[kSuperblock / 32];
  uint8_t signs[kSuperblock / 8];
  uint8_t scales[kSuperblock / 64];
};
struct BlockIQ1S {
  Half scale;
  uint8_t indices[kSuperblock / 8];
  uint16_t high[kSuperblock / 32];
};
struct BlockIQ1M {
  uint8_t indices[kSuperblock / 8];
  uint8_t high[kSuperblock / 16];
  uint8_t scales[kSuperblock / 32];  // u16 × 4: the top 4 bits of each make up the f16 scale
};
struct BlockTQ1 {
  uint8_t fives[48];  // five base-3 digits per byte
  uint8_t fours[4];
  Half scale;
};
struct BlockTQ2 {
  uint8_t quads[kSuperblock / 4];
  Half scale;
};

static_assert(sizeof(BlockQ8) == 34 && sizeof(BlockQ4) == 18 && sizeof(BlockQ4_1) == 20 &&
              sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24 && sizeof(BlockQ2K) == 84 &&
              sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176 &&
              sizeof(BlockQ6K) == 210 && sizeof(BlockIQ4NL) == 18 && sizeof(BlockIQ4XS) == 136 &&
              sizeof(BlockMXFP4) == 17 && sizeof(BlockIQ2XXS) == 66 && sizeof(BlockIQ2XS) == 74 &&
              sizeof(BlockIQ2S) == 82 && sizeof(BlockIQ3XXS) == 98 && sizeof(BlockIQ3S) == 110 &&
              sizeof(BlockIQ1S) == 50 && sizeof(BlockIQ1M) == 56 && sizeof(BlockTQ1) == 54 &&
              sizeof(BlockTQ2) == 66);

/// The numbers of IQ4_NL and IQ4_XS, and the doubled ones of MXFP4, by their 4-bit code.
inline constexpr int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kFP4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Calls fn(static_cast<const Block*>(nullptr)) with the block that a quantised type consists of.
template <class Fn>
decltype(auto) with_block_of(Element type, Fn&& fn) {
  const auto call = [&]<class Block>() -> decltype(auto) {
    return fn(static_cast<const Block*>(nullptr));
  };
  switch (type) {
    case Element::q4_0:
      return call.template operator()<BlockQ4>();
    case Element::q4_1:
      return call.template operator()<BlockQ4_1>();
    case Element::q5_0:
      return call.template operator()<BlockQ5_0>();
    case Element::q5_1:
      return call.template operator()<BlockQ5_1>();
    case Element::q2_k:
      return call.template operator()<BlockQ2K>();
    case Element::q3_k:
      return call.template operator()<BlockQ3K>();
    case Element::q4_k:
      return call.template operator()<BlockQ4K>();
    case Element::q5_k:
      return call.template operator()<BlockQ5K>();
    case Element::q6_k:
      return call.template operator()<BlockQ6K>();
    case Element::iq4_nl:
      return call.template operator()<BlockIQ4NL>();
    case Element::iq4_xs:
      return call.template operator()<BlockIQ4XS>();
    case Element::mxfp4:
      return call.template operator()<BlockMXFP4>();
    case Element::iq2_xxs:
      return call.template operator()<BlockIQ2XXS>();
    case Element::iq2_xs:
      return call.template operator()<BlockIQ2XS>();
    case Element::iq2_s:
      return call.template operator()<BlockIQ2S>();
    case Element::iq3_xxs:
      return call.template operator()<BlockIQ3XXS>();
    case Element::iq3_s:
      return call.template operator()<BlockIQ3S>();
    case Element::iq1_s:
      return call.template operator()<BlockIQ1S>();
    case Element::iq1_m:
      return call.template operator()<BlockIQ1M>();
    case Element::tq1_0:
      return call.template operator()<BlockTQ1>();
    case Element::tq2_0:
      return call.template operator()<BlockTQ2>();
    default:
      return call.template operator()<BlockQ8>();
  }
}

/// Weights of one block: 32 up to 34 bytes, which no superblock is below.
template <class Block>
inline constexpr int64_t kBlockWeights = sizeof(Block) <= sizeof(BlockQ8) ? kBlock : kSuperblock;

/// Weights and bytes of a block of a quantised type.
struct BlockSize {
  int64_t weights;
  int64_t bytes;
};
inline BlockSize block_size(Element type) {
  return with_block_of(type, []<class Block>(const Block*) {
    return BlockSize{kBlockWeights<Block>, static_cast<int64_t>(sizeof(Block))};
  });
}

/// A block in whole numbers. Weight i is (scale · scales[i / 16]) · values[i] −
/// min · mins[i / 16]; products with scales and minima are exact in f32. |scales · values| is at
/// most 4096.
struct UnpackedBlock {
  float scale;
  float min;
  int16_t scales[kSuperblock / 16];
  int16_t mins[kSuperblock / 16];
  int8_t values[kSuperblock];
};

void unpack(const BlockQ8& block, UnpackedBlock& out);
void unpack(const BlockQ4& block, UnpackedBlock& out);
void unpack(const BlockQ4_1& block, UnpackedBlock& out);
void unpack(const BlockQ5_0& block, UnpackedBlock& out);
void unpack(const BlockQ5_1& block, UnpackedBlock& out);
void unpack(const BlockQ2K& block, UnpackedBlock& out);
void unpack(const BlockQ3K& block, UnpackedBlock& out);
void unpack(const BlockQ4K& block, UnpackedBlock& out);
void unpack(const BlockQ5K& block, UnpackedBlock& out);
void unpack(const BlockQ6K& block, UnpackedBlock& out);
void unpack(const BlockIQ4NL& block, UnpackedBlock& out);
void unpack(const BlockIQ4XS& block, UnpackedBlock& out);
void unpack(const BlockMXFP4& block, UnpackedBlock& out);
void unpack(const BlockIQ2XXS& block, UnpackedBlock& out);
void unpack(const BlockIQ2XS& block, UnpackedBlock& out);
void unpack(const BlockIQ2S& block, UnpackedBlock& out);
void unpack(const BlockIQ3XXS& block, UnpackedBlock& out);
void unpack(const BlockIQ3S& block, UnpackedBlock& out);
void unpack(const BlockIQ1S& block, UnpackedBlock& out);
void unpack(const BlockIQ1M& block, UnpackedBlock& out);
void unpack(const BlockTQ1& block, UnpackedBlock& out);
void unpack(const BlockTQ2& block, UnpackedBlock& out);

/// The 8 scales and 8 minima of Q4_K and Q5_K.
void unpack_scales(const uint8_t* packed, int16_t* scales, int16_t* mins);

}  // namespace heed::kernels
