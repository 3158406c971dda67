#include "kernels/interleave.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"

namespace heed::kernels {
namespace {

/// Where the fields of one block of one column go.
struct Lane {
  uint8_t* words;  // of this lane, 64 bytes apart
  uint8_t* side;   // of the block
  int64_t column;

  void put_words(const void* from, int64_t first, int64_t count) const {
    for (int64_t w = 0; w < count; ++w) {
      std::memcpy(words + (first + w) * 64, static_cast<const uint8_t*>(from) + 4 * w, 4);
    }
  }
  /// Halves of all columns lie side by side from byte `offset` of the side on.
  void put_half(Half value, int64_t offset) const {
    std::memcpy(side + offset + 2 * column, &value, 2);
  }
  void put_side_words(const void* from, int64_t count) const {
    for (int64_t w = 0; w < count; ++w) {
      std::memcpy(side + w * 64 + 4 * column, static_cast<const uint8_t*>(from) + 4 * w, 4);
    }
  }
};

void put(const BlockQ8& block, const Lane& lane) {
  for (int64_t w = 0; w < 8; ++w) {
    uint32_t word;
    std::memcpy(&word, block.values + 4 * w, 4);
    word ^= 0x80808080u;
    std::memcpy(lane.words + 64 * w, &word, 4);
  }
  lane.put_half(block.scale, 0);
}
template <class Block>
requires(std::is_same_v<Block, BlockQ4> ||
         std::is_same_v<Block, BlockIQ4NL>) void put(const Block& block, const Lane& lane) {
  lane.put_words(block.pairs, 0, 4);
  lane.put_half(block.scale, 0);
}
void put(const BlockQ4_1& block, const Lane& lane) {
  lane.put_words(block.pairs, 0, 4);
  lane.put_half(block.scale, 0);
  lane.put_half(block.min, 32);
}
/// Bit 4w + i to bit w of byte i.
uint32_t spread_bits(const uint8_t* high) {
  uint32_t bits;
  std::memcpy(&bits, high, 4);
  uint32_t spread = 0;
  for (uint32_t w = 0; w < 8; ++w) {
    spread |= (((bits >> (4 * w)) & 15u) * 0x00204081u & 0x01010101u) << w;
  }
  return spread;
}
template <class Block>
requires(std::is_same_v<Block, BlockQ5_0> ||
         std::is_same_v<Block, BlockQ5_1>) void put(const Block& block, const Lane& lane) {
  const uint32_t high = spread_bits(block.high);
  lane.put_words(&high, 0, 1);
  lane.put_words(block.pairs, 1, 4);
  lane.put_half(block.scale, 0);
  if constexpr (std::is_same_v<Block, BlockQ5_1>) {
    lane.put_half(block.min, 32);
  }
}
template <class Block>
requires(std::is_same_v<Block, BlockQ4K> ||
         std::is_same_v<Block, BlockQ5K>) void put(const Block& block, const Lane& lane) {
  if constexpr (std::is_same_v<Block, BlockQ5K>) {
    lane.put_words(block.high, 0, 8);
    lane.put_words(block.pairs, 8, 32);
  } else {
    lane.put_words(block.pairs, 0, 32);
  }
  lane.put_side_words(block.scales, 3);
  lane.put_half(block.scale, 3 * 64);
  lane.put_half(block.min, 3 * 64 + 32);
}
void put(const BlockQ6K& block, const Lane& lane) {
  for (int64_t round = 0; round < 4; ++round) {  // see Words32<BlockQ6K>
    const int64_t half = round / 2;
    const int64_t part = round % 2;
    lane.put_words(block.pairs + 64 * half + 16 * part, 12 * round, 4);
    lane.put_words(block.pairs + 64 * half + 32 + 16 * part, 12 * round + 4, 4);
    lane.put_words(block.high + 32 * half + 16 * part, 12 * round + 8, 4);
  }
  lane.put_side_words(block.scales, 4);
  lane.put_half(block.scale, 4 * 64);
}

/// One group: `count` columns, the others of the group zeros. Some blocks at a time, so that the
/// lines that are written stay in L1.
template <class Block>
void interleave_group(const Block* first, int64_t blocks, int64_t count, uint8_t* out) {
  using I = Interleaved<Block>;
  if (count < kGroupColumns || blocks % kUnitBlocks<Block> != 0) {
    std::memset(out, 0, static_cast<size_t>(group_bytes<Block>(blocks)));
  }
  constexpr int64_t kAtOnce = std::max<int64_t>(1, 64 / I::kWords);
  for (int64_t begin = 0; begin < blocks; begin += kAtOnce) {
    const int64_t end = std::min(begin + kAtOnce, blocks);
    for (int64_t column = 0; column < count; ++column) {
      for (int64_t b = begin; b < end; ++b) {
        put(first[column * blocks + b],
            Lane{out + words_offset<Block>(b) + 4 * column, out + side_offset<Block>(b), column});
      }
    }
  }
}

}  // namespace

int64_t interleaved_bytes(Element type, int64_t n, int64_t k) {
  return with_block_of(type, [&]<class Block>(const Block*) -> int64_t {
    if (Interleaved<Block>::kWords == 0 || !is_quantized(type)) {
      return 0;
    }
    return (n + kGroupColumns - 1) / kGroupColumns * group_bytes<Block>(k / kBlockWeights<Block>);
  });
}

void interleave(Element type, const void* blocks, int64_t n, int64_t k, void* out) {
  with_block_of(type, [&]<class Block>(const Block*) {
    if constexpr (Interleaved<Block>::kWords != 0) {
      const int64_t count = k / kBlockWeights<Block>;
      const auto* first = static_cast<const Block*>(blocks);
      parallel_for((n + kGroupColumns - 1) / kGroupColumns, [&](int64_t group) {
        const int64_t column = group * kGroupColumns;
        interleave_group(first + column * count, count, std::min(kGroupColumns, n - column),
                         static_cast<uint8_t*>(out) + group * group_bytes<Block>(count));
      });
    }
  });
}

}  // namespace heed::kernels
