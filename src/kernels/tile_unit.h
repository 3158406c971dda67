#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

// The bf16 product on a unit with tile registers, such as Intel's AMX: what one block of C is
// computed with. It is written over a policy of tile operations, so that tests can run it without
// the unit:
//
//   configure(shapes)        gives the calling thread tiles of these shapes; release() ends that
//   zero<tile>()             all sums of a tile become zero
//   load<tile>(from, bytes)  16 rows of 64 bytes that lie `bytes` apart; store<tile>() the reverse
//   dot<sum, a, b>()         adds to 16 × 16 sums of f32 the products of A's 16 rows of 16 pairs of
//                            bf16 and B's 16 rows (pairs along k) of 16 columns

namespace heed::kernels {

inline constexpr int64_t kTileSide = 16;   // rows of a tile, and words of each
inline constexpr int64_t kBlockSide = 32;  // of a block of C: 2 × 2 tiles of sums

/// The shapes of a thread's tiles, as the instruction LDTILECFG reads them: palette 1 has 8 tiles
/// of up to 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
inline constexpr TileShapes kFullTiles;

/// A block of C, up to 32 × 32, over `steps` pairs of k. A row of A holds zeros up to a multiple of
/// 16 pairs, and A has rows up to a multiple of 16. B is a panel [steps][32].
struct TileBlock {
  const uint32_t* a;
  int64_t a_stride;
  const uint32_t* b;
  int64_t steps;
  float* c;
  int64_t c_stride;
  int64_t rows;
  int64_t width;
  bool first;  ///< sums start from zero, else from what C holds
};

/// The tile operations of a machine, or of a model of it. A thread multiplies between configure()
/// and release().
struct TileUnit {
  void (*configure)();
  void (*release)();
  void (*multiply)(const TileBlock& block);
};

template <class Tiles, int tile>
void start_sums(const TileBlock& block, const float* c) {
  if (block.first) {
    Tiles::template zero<tile>();
  } else {
    Tiles::template load<tile>(c, block.c_stride * 4);
  }
}

/// 2 × 2 tiles of sums, or fewer where the block is not `tall` or not `wide`. Each sum is that of
/// dot() over k = 0 … 31, 32 … 63, and so on, whichever row and column of a tile it is in.
template <class Tiles, bool tall, bool wide>
void multiply_whole_tiles(const TileBlock& block) {
  constexpr int64_t kWord = 4;
  const int64_t a_bytes = block.a_stride * kWord;
  const int64_t c_bytes = block.c_stride * kWord;
  float* below = block.c + kTileSide * block.c_stride;
  start_sums<Tiles, 0>(block, block.c);
  if constexpr (wide) {
    start_sums<Tiles, 1>(block, block.c + kTileSide);
  }
  if constexpr (tall) {
    start_sums<Tiles, 2>(block, below);
  }
  if constexpr (tall && wide) {
    start_sums<Tiles, 3>(block, below + kTileSide);
  }
  for (int64_t step = 0; step < block.steps; step += kTileSide) {
    const uint32_t* a = block.a + step;
    const uint32_t* b = block.b + step * kBlockSide;
    alignas(64) uint32_t end[kTileSide * kBlockSide];
    if (const int64_t left = block.steps - step; left < kTileSide) {  // zeros past the end of B
      std::fill(std::copy_n(b, left * kBlockSide, end), std::end(end), 0u);
      b = end;
    }
    Tiles::template load<4>(a, a_bytes);
    Tiles::template load<6>(b, kBlockSide * kWord);
    Tiles::template dot<0, 4, 6>();
    if constexpr (wide) {
      Tiles::template load<7>(b + kTileSide, kBlockSide * kWord);
      Tiles::template dot<1, 4, 7>();
    }
    if constexpr (tall) {
      Tiles::template load<5>(a + kTileSide * block.a_stride, a_bytes);
      Tiles::template dot<2, 5, 6>();
    }
    if constexpr (tall && wide) {
      Tiles::template dot<3, 5, 7>();
    }
  }
  Tiles::template store<0>(block.c, c_bytes);
  if constexpr (wide) {
    Tiles::template store<1>(block.c + kTileSide, c_bytes);
  }
  if constexpr (tall) {
    Tiles::template store<2>(below, c_bytes);
  }
  if constexpr (tall && wide) {
    Tiles::template store<3>(below + kTileSide, c_bytes);
  }
}

/// TileUnit::multiply(): a block whose C is no whole number of tiles goes through a buffer.
template <class Tiles>
void multiply_tiles(const TileBlock& block) {
  if (block.rows % kTileSide != 0 || block.width % kTileSide != 0) {
    alignas(64) float buffer[kBlockSide * kBlockSide] = {};
    for (int64_t r = 0; r < block.rows && !block.first; ++r) {
      std::copy_n(block.c + r * block.c_stride, block.width, buffer + r * kBlockSide);
    }
    TileBlock whole = block;
    whole.c = buffer;
    whole.c_stride = kBlockSide;
    whole.rows = block.rows > kTileSide ? kBlockSide : kTileSide;
    whole.width = block.width > kTileSide ? kBlockSide : kTileSide;
    multiply_tiles<Tiles>(whole);
    for (int64_t r = 0; r < block.rows; ++r) {
      std::copy_n(buffer + r * kBlockSide, block.width, block.c + r * block.c_stride);
    }
    return;
  }
  const bool tall = block.rows > kTileSide;
  if (block.width > kTileSide) {
    tall ? multiply_whole_tiles<Tiles, true, true>(block)
         : multiply_whole_tiles<Tiles, false, true>(block);
  } else {
    tall ? multiply_whole_tiles<Tiles, true, false>(block)
         : multiply_whole_tiles<Tiles, false, false>(block);
  }
}

template <class Tiles>
inline constexpr TileUnit kTileUnit{[] { Tiles::configure(kFullTiles); }, [] { Tiles::release(); },
                                    &multiply_tiles<Tiles>};

}  // namespace heed::kernels
