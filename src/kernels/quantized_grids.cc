// Layouts of the I-quants, whose weights come in groups of 8 or 4 from a grid.
#include "kernels/quantized_grids.h"

#include <bit>
#include <cstring>

#include "kernels/quantized_blocks.h"

namespace heed::kernels {
namespace {

constexpr int kGroup = 8;  // weights that share a byte of signs
constexpr int8_t kThree[] = {8, 25, 43};
constexpr int8_t kEight[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int8_t kOdd[] = {1, 3, 5, 7, 9, 11, 13, 15};

/// Seven stored signs; the eighth makes their number even.
int all_signs(uint32_t seven) {
  return static_cast<int>(seven | (static_cast<uint32_t>(std::popcount(seven)) & 1) << 7);
}

int8_t with_sign(int value, int signs, int i) {
  return static_cast<int8_t>((signs >> i) & 1 ? -value : value);
}

/// Eight weights from a grid of eights (2 bits each).
void put_eight(uint16_t grid, int signs, int8_t* values) {
  for (int i = 0; i < kGroup; ++i) {
    values[i] = with_sign(kThree[(grid >> (2 * i)) & 3], signs, i);
  }
}
/// Eight weights from two entries of a grid of fours (3 bits each).
void put_fours(uint16_t first, uint16_t second, const int8_t* levels, int signs, int8_t* values) {
  for (int i = 0; i < 4; ++i) {
    values[i] = with_sign(levels[(first >> (3 * i)) & 7], signs, i);
    values[4 + i] = with_sign(levels[(second >> (3 * i)) & 7], signs, 4 + i);
  }
}
/// Eight weights of −1, 0 and 1, in eighths and moved by one eighth.
void put_ternary(uint16_t grid, int shift, int8_t* values) {
  for (int i = 0; i < kGroup; ++i) {
    values[i] = static_cast<int8_t>(8 * (((grid >> (2 * i)) & 3) - 1) + shift);
  }
}

uint32_t word_at(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

void set_scale(UnpackedBlock& out, float scale) {
  out.scale = scale;
  out.min = 0.0f;
  std::memset(out.mins, 0, sizeof out.mins);
}
/// Odd numbers of 4 bits per 16 weights.
void set_scales_of_16(UnpackedBlock& out, const uint8_t* scales) {
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = static_cast<int16_t>(2 * ((scales[j / 2] >> (4 * (j % 2))) & 15) + 1);
  }
}

}  // namespace

void unpack(const BlockIQ2XXS& block, UnpackedBlock& out) {
  set_scale(out, to_float(block.scale) * 0.125f);
  for (int j = 0; j < 8; ++j) {
    const uint8_t* indices = block.groups + 8 * j;
    const uint32_t signs = word_at(indices + 4);
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int16_t>(2 * (signs >> 28) + 1);
    for (int g = 0; g < 4; ++g) {
      put_eight(kGridIQ2XXS[indices[g]], all_signs((signs >> (7 * g)) & 127),
                out.values + 32 * j + kGroup * g);
    }
  }
}

void unpack(const BlockIQ2XS& block, UnpackedBlock& out) {
  set_scale(out, to_float(block.scale) * 0.125f);
  set_scales_of_16(out, block.scales);
  for (int g = 0; g < 32; ++g) {
    const uint16_t index = block.indices[g];
    put_eight(kGridIQ2XS[index & 511], all_signs(index >> 9), out.values + kGroup * g);
  }
}

void unpack(const BlockIQ2S& block, UnpackedBlock& out) {
  set_scale(out, to_float(block.scale) * 0.125f);
  set_scales_of_16(out, block.scales);
  for (int g = 0; g < 32; ++g) {
    const int high = (block.high[g / 4] >> (2 * (g % 4))) & 3;
    put_eight(kGridIQ2S[block.indices[g] | high << 8], block.signs[g], out.values + kGroup * g);
  }
}

void unpack(const BlockIQ3XXS& block, UnpackedBlock& out) {
  set_scale(out, to_float(block.scale) * 0.25f);
  for (int j = 0; j < 8; ++j) {
    const uint32_t signs = word_at(block.signs + 4 * j);
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int16_t>(2 * (signs >> 28) + 1);
    for (int g = 0; g < 4; ++g) {
      const uint8_t* index = block.indices + 8 * j + 2 * g;
      put_fours(kGridIQ3XXS[index[0]], kGridIQ3XXS[index[1]], kEight,
                all_signs((signs >> (7 * g)) & 127), out.values + 32 * j + kGroup * g);
    }
  }
}

void unpack(const BlockIQ3S& block, UnpackedBlock& out) {
  set_scale(out, to_float(block.scale));
  for (int j = 0; j < 8; ++j) {
    const int scale = (block.scales[j / 2] >> (4 * (j % 2))) & 15;
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int16_t>(2 * scale + 1);
  }
  const auto entry = [&](int i) {
    return kGridIQ3S[block.indices[i] | ((block.high[i / 8] >> (i % 8)) & 1) << 8];
  };
  for (int g = 0; g < 32; ++g) {
    put_fours(entry(2 * g), entry(2 * g + 1), kOdd, block.signs[g], out.values + kGroup * g);
  }
}

void unpack(const BlockIQ1S& block, UnpackedBlock& out) {
  set_scale(out, to_float(block.scale) * 0.125f);
  for (int j = 0; j < 8; ++j) {
    const uint16_t high = block.high[j];
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int16_t>(2 * ((high >> 12) & 7) + 1);
    for (int g = 0; g < 4; ++g) {
      const int index = block.indices[4 * j + g] | ((high >> (3 * g)) & 7) << 8;
      put_ternary(kGridIQ1[index], (high & 0x8000) != 0 ? -1 : 1, out.values + 32 * j + kGroup * g);
    }
  }
}

void unpack(const BlockIQ1M& block, UnpackedBlock& out) {
  uint16_t words[4];
  std::memcpy(words, block.scales, sizeof words);
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    bits |= static_cast<uint32_t>(words[i] >> 12) << (4 * i);
  }
  set_scale(out, to_float(Half{static_cast<uint16_t>(bits)}) * 0.125f);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = static_cast<int16_t>(2 * ((words[j / 4] >> (3 * (j % 4))) & 7) + 1);
  }
  for (int g = 0; g < 32; ++g) {
    const int high = block.high[g / 2] >> (4 * (g % 2));
    put_ternary(kGridIQ1[block.indices[g] | (high & 7) << 8], (high & 8) != 0 ? -1 : 1,
                out.values + kGroup * g);
  }
}

}  // namespace heed::kernels
