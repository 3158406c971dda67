// The layouts of plain blocks, K-quants, IQ4, MXFP4 and ternary blocks. kernels/quantized_grids.cc
// has those that look their weights up in a grid.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/quantized_blocks.h"

namespace heed::kernels {
namespace {

void set_scales(UnpackedBlock& out, Half scale) {
  out.scale = to_float(scale);
  out.min = 0.0f;
  std::fill_n(out.scales, kSuperblock / 16, int16_t{1});
  std::fill_n(out.mins, kSuperblock / 16, int16_t{0});
}
/// Blocks that add their minimum: GGUF has + min for 32 weights and − min for 256.
void set_scales(UnpackedBlock& out, Half scale, Half min) {
  set_scales(out, scale);
  out.min = -to_float(min);
  std::fill_n(out.mins, kBlock / 16, int16_t{1});
}

/// 32 weights from 16 bytes: low nibbles first.
template <class Map>
void put_pairs(const uint8_t* pairs, int8_t* values, const Map& map) {
  for (int i = 0; i < 16; ++i) {
    values[i] = static_cast<int8_t>(map(pairs[i] & 15, i));
    values[16 + i] = static_cast<int8_t>(map(pairs[i] >> 4, 16 + i));
  }
}
int plain(int nibble, int) { return nibble; }

int fifth_bit(const uint8_t* high, int i) { return ((high[i / 8] >> (i % 8)) & 1) << 4; }

/// 256 weights of two bits each: each 32 bytes hold four runs of 32.
void put_quads(const uint8_t* quads, int8_t* values) {
  for (int half = 0; half < 2; ++half) {
    for (int run = 0; run < 4; ++run) {
      for (int i = 0; i < 32; ++i) {
        values[128 * half + 32 * run + i] =
            static_cast<int8_t>((quads[32 * half + i] >> (2 * run)) & 3);
      }
    }
  }
}

/// Scales and minima of 32 weights each, in the 16s of an UnpackedBlock.
void set_superblock_scales(const uint8_t* packed, UnpackedBlock& out) {
  int16_t scales[8];
  int16_t mins[8];
  unpack_scales(packed, scales, mins);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = scales[j / 2];
    out.mins[j] = mins[j / 2];
  }
}

}  // namespace

void unpack_scales(const uint8_t* packed, int16_t* scales, int16_t* mins) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = static_cast<int16_t>(packed[j] & 63);
    mins[j] = static_cast<int16_t>(packed[4 + j] & 63);
    scales[4 + j] = static_cast<int16_t>((packed[8 + j] & 15) | (packed[j] >> 6) << 4);
    mins[4 + j] = static_cast<int16_t>((packed[8 + j] >> 4) | (packed[4 + j] >> 6) << 4);
  }
}

void unpack(const BlockQ8& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  std::copy_n(block.values, kBlock, out.values);
}

void unpack(const BlockQ4& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  put_pairs(block.pairs, out.values, [](int nibble, int) { return nibble - 8; });
}

void unpack(const BlockQ4_1& block, UnpackedBlock& out) {
  set_scales(out, block.scale, block.min);
  put_pairs(block.pairs, out.values, plain);
}

void unpack(const BlockQ5_0& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  put_pairs(block.pairs, out.values,
            [&](int nibble, int i) { return (nibble | fifth_bit(block.high, i)) - 16; });
}

void unpack(const BlockQ5_1& block, UnpackedBlock& out) {
  set_scales(out, block.scale, block.min);
  put_pairs(block.pairs, out.values,
            [&](int nibble, int i) { return nibble | fifth_bit(block.high, i); });
}

void unpack(const BlockQ2K& block, UnpackedBlock& out) {
  out.scale = to_float(block.scale);
  out.min = to_float(block.min);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = static_cast<int16_t>(block.scales[j] & 15);
    out.mins[j] = static_cast<int16_t>(block.scales[j] >> 4);
  }
  put_quads(block.quads, out.values);
}

void unpack(const BlockQ3K& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? block.scales[j] & 15 : block.scales[j - 8] >> 4;
    const int high = (block.scales[8 + j % 4] >> (2 * (j / 4))) & 3;
    out.scales[j] = static_cast<int16_t>((low | high << 4) - 32);
  }
  put_quads(block.quads, out.values);
  for (int i = 0; i < kSuperblock; ++i) {  // a bit that is clear takes 4 away
    const int clear = 1 - ((block.high[i % 32] >> (i / 32)) & 1);
    out.values[i] = static_cast<int8_t>(out.values[i] - 4 * clear);
  }
}

void unpack(const BlockQ4K& block, UnpackedBlock& out) {
  out.scale = to_float(block.scale);
  out.min = to_float(block.min);
  set_superblock_scales(block.scales, out);
  for (int i = 0; i < kSuperblock; ++i) {
    const uint8_t both = block.pairs[i / 64 * 32 + i % 32];
    out.values[i] = static_cast<int8_t>(i % 64 < 32 ? both & 15 : both >> 4);
  }
}

void unpack(const BlockQ5K& block, UnpackedBlock& out) {
  out.scale = to_float(block.scale);
  out.min = to_float(block.min);
  set_superblock_scales(block.scales, out);
  for (int i = 0; i < kSuperblock; ++i) {
    const uint8_t both = block.pairs[i / 64 * 32 + i % 32];
    const int high = ((block.high[i % 32] >> (i / 32)) & 1) << 4;
    out.values[i] = static_cast<int8_t>((i % 64 < 32 ? both & 15 : both >> 4) | high);
  }
}

void unpack(const BlockQ6K& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  std::copy_n(block.scales, kSuperblock / 16, out.scales);
  for (int i = 0; i < kSuperblock; ++i) {
    const int half = i / 128;
    const uint8_t both = block.pairs[64 * half + i % 64];
    const int low = i % 128 < 64 ? both & 15 : both >> 4;
    const int high = (block.high[32 * half + i % 32] >> (2 * (i % 128 / 32))) & 3;
    out.values[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

void unpack(const BlockIQ4NL& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  put_pairs(block.pairs, out.values, [](int nibble, int) { return kIQ4Values[nibble]; });
}

void unpack(const BlockIQ4XS& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  for (int j = 0; j < 8; ++j) {
    const int low = (block.scales_low[j / 2] >> (4 * (j % 2))) & 15;
    const int high = (block.scales_high >> (2 * j)) & 3;
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int16_t>((low | high << 4) - 32);
    put_pairs(block.pairs + 16 * j, out.values + 32 * j,
              [](int nibble, int) { return kIQ4Values[nibble]; });
  }
}

void unpack(const BlockMXFP4& block, UnpackedBlock& out) {
  set_scales(out, Half{});
  out.scale = std::ldexp(1.0f, static_cast<int>(block.exponent) - 128);
  put_pairs(block.pairs, out.values, [](int nibble, int) { return kFP4Values[nibble]; });
}

void unpack(const BlockTQ1& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  int at = 0;
  const auto put = [&](const uint8_t* bytes, int count, int digits) {
    constexpr int kPowers[] = {1, 3, 9, 27, 81};
    for (int digit = 0; digit < digits; ++digit) {
      for (int i = 0; i < count; ++i) {
        const auto rest = static_cast<uint8_t>(bytes[i] * kPowers[digit]);
        out.values[at++] = static_cast<int8_t>(((rest * 3) >> 8) - 1);
      }
    }
  };
  put(block.fives, 32, 5);
  put(block.fives + 32, 16, 5);
  put(block.fours, 4, 4);
}

void unpack(const BlockTQ2& block, UnpackedBlock& out) {
  set_scales(out, block.scale);
  put_quads(block.quads, out.values);
  for (int8_t& value : out.values) {
    value = static_cast<int8_t>(value - 1);
  }
}

}  // namespace heed::kernels
