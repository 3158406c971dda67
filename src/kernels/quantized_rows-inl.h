// The quantised product with very few rows of A (decoding alone): columns of B are read one after
// the other as they lie in memory, so that the machine's prefetcher follows one long stream. A
// block's products are added up along the lanes, in whole numbers, which gives the bits of any
// other order. Per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_QUANTIZED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_QUANTIZED_ROWS_INL_H_
#undef HEED_KERNELS_QUANTIZED_ROWS_INL_H_
#else
#define HEED_KERNELS_QUANTIZED_ROWS_INL_H_
#endif
// clang-format on

#include "kernels/quantized_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Words of one block's weights in lanes: at most the 32 bytes of a block.
using BlockTag = hn::CappedTag<int32_t, 8>;
using BlockVec = hn::Vec<BlockTag>;
constexpr auto kBlockLanes = static_cast<int64_t>(hn::MaxLanes(BlockTag()));
constexpr int64_t kBlockPieces = 8 / kBlockLanes;

template <class Format>
HWY_INLINE void load_block(const BlockQ8* block, BlockVec* weights) {
  const BlockTag d;
  const hn::Repartition<int8_t, BlockTag> d8;
  for (int64_t i = 0; i < kBlockPieces; ++i) {
    weights[i] =
        Format::from_signed(d, hn::BitCast(d, hn::LoadU(d8, block->values + 4 * kBlockLanes * i)));
  }
}
template <class Format, class D = BlockTag>
HWY_INLINE void load_block(const BlockQ4* block, BlockVec* weights) {
  const D d;
  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<int32_t, 4> d32;
  const auto pairs = hn::BitCast(d32, hn::LoadU(d8, block->pairs));
  const auto mask = hn::Set(d32, 0x0f0f0f0f);
  const auto low = hn::And(pairs, mask);
  const auto high = hn::And(hn::ShiftRight<4>(pairs), mask);
  if constexpr (hn::MaxLanes(D()) == 8) {
    weights[0] = Format::from_nibbles(d, hn::Combine(d, high, low));
  } else {
    weights[0] = Format::from_nibbles(d, low);
    weights[1] = Format::from_nibbles(d, high);
  }
}

/// Sum of the lanes of each of kBlockLanes vectors, a vector a lane.
HWY_INLINE BlockVec sum_each(const BlockVec* v) {
  const BlockTag d;
  const hn::Repartition<int64_t, BlockTag> d64;
  BlockVec quads[2];
  for (int64_t i = 0; i < kBlockLanes / 4; ++i) {
    BlockVec pairs[2];
    for (int64_t j = 0; j < 2; ++j) {
      const auto a = v[4 * i + 2 * j];
      const auto b = v[4 * i + 2 * j + 1];
      pairs[j] = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    }
    const auto a = hn::BitCast(d64, pairs[0]);
    const auto b = hn::BitCast(d64, pairs[1]);
    quads[i] = hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, a, b)),
                       hn::BitCast(d, hn::InterleaveUpper(d64, a, b)));
  }
  if constexpr (kBlockLanes == 4) {
    return quads[0];
  } else {
    return hn::Add(hn::ConcatLowerLower(d, quads[1], quads[0]),
                   hn::ConcatUpperUpper(d, quads[1], quads[0]));
  }
}

/// Whole sums of a column's blocks, which stand at [block, block + blocks) of k, with each of
/// `rows` rows of x: sums[r * row_stride + i].
template <class Format, class Block>
HWY_INLINE void column_sums(const Block* column, const QuantizedRows& x, int64_t rows,
                            int64_t block, int64_t blocks, int32_t* sums, int64_t row_stride) {
  const BlockTag d;
  int64_t b = 0;
  for (; b + kBlockLanes <= blocks; b += kBlockLanes) {
    BlockVec weights[kBlockLanes][kBlockPieces];
    HWY_UNROLL(8)
    for (int64_t i = 0; i < kBlockLanes; ++i) {
      load_block<Format>(column + b + i, weights[i]);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * x.blocks + block + b;
      const int32_t* words = x.words + at * Format::kWords;
      BlockVec part[kBlockLanes];
      HWY_UNROLL(8)
      for (int64_t i = 0; i < kBlockLanes; ++i) {
        part[i] = hn::Zero(d);
        for (int64_t piece = 0; piece < kBlockPieces; ++piece) {
          part[i] =
              Format::add_piece(d, part[i], weights[i][piece], words + i * Format::kWords, piece);
        }
      }
      hn::StoreU(hn::Add(sum_each(part), hn::LoadU(d, x.starts + at)), d,
                 sums + r * row_stride + b);
    }
  }
  for (; b < blocks; ++b) {
    BlockVec weights[kBlockPieces];
    load_block<Format>(column + b, weights);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * x.blocks + block + b;
      auto part = hn::Zero(d);
      for (int64_t piece = 0; piece < kBlockPieces; ++piece) {
        part = Format::add_piece(d, part, weights[piece], x.words + at * Format::kWords, piece);
      }
      sums[r * row_stride + b] = hn::GetLane(hn::SumOfLanes(d, part)) + x.starts[at];
    }
  }
}

constexpr int64_t kColumnBlocks = 96;         // of a column at a time
constexpr int64_t kQuantizedVeryFewRows = 4;  // rows of A that read B in this way

/// What kStreams columns give before the chain over their blocks; on the stack of a tile.
struct ColumnSums {
  HWY_ALIGN int32_t whole[kQuantizedVeryFewRows][kStreams][kColumnBlocks];
  HWY_ALIGN float scales[kStreams][kColumnBlocks];
};

/// The chain over blocks [block, block + blocks) of row r for kStreams columns, from and to c.
HWY_INLINE void add_blocks(const QuantizedRows& x, int64_t r, int64_t block, int64_t blocks,
                           const ColumnSums& part, float* c, bool first) {
  const hn::ScalableTag<float> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(Words()));
  const uint8_t* sum_row[kStreams];
  const uint8_t* scale_row[kStreams];
  for (int64_t j = 0; j < kStreams; ++j) {
    scale_row[j] = reinterpret_cast<const uint8_t*>(part.scales[j]);
    sum_row[j] = reinterpret_cast<const uint8_t*>(part.whole[r][j]);
  }
  const float* x_scale = x.scales + r * x.blocks + block;
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    auto sum = first ? hn::Zero(d) : hn::LoadU(d, c + v * kLanes);
    for (int64_t b = 0; b < blocks; b += 4) {
      WordVec whole[4];
      WordVec scale[4];
      load_words(sum_row + v * kLanes, 4 * b, whole);
      load_words(scale_row + v * kLanes, 4 * b, scale);
      for (int64_t i = 0; i < HWY_MIN(int64_t{4}, blocks - b); ++i) {
        const auto both = hn::Mul(hn::BitCast(d, scale[i]), hn::Set(d, x_scale[b + i]));
        sum = hn::MulAdd(hn::ConvertTo(d, whole[i]), both, sum);
      }
    }
    hn::StoreU(sum, d, c + v * kLanes);
  }
}

/// `count` (up to kStreams) columns, one after the other in memory, times `rows` rows of x.
template <class Format, class Block>
void multiply_columns(const Block* first, int64_t stride, int64_t count, const QuantizedRows& x,
                      int64_t rows, ColumnSums& part, float* c, int64_t c_stride) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t block = 0;
  do {
    const int64_t blocks = HWY_MIN(kColumnBlocks, x.blocks - block);
    for (int64_t j = 0; j < kStreams; ++j) {  // past the end the last column again
      const Block* column = first + HWY_MIN(j, count - 1) * stride + block;
      HWY_ALIGN Half halves[kColumnBlocks];
      for (int64_t b = 0; b < blocks; ++b) {
        halves[b] = column[b].scale;
      }
      column_sums<Format>(column, x, rows, block, blocks, part.whole[0][j],
                          kStreams * kColumnBlocks);
      for (int64_t b = 0; b < blocks; b += lanes) {
        hn::Store(load(d, halves + b), d, part.scales[j] + b);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      add_blocks(x, r, block, blocks, part, c + r * c_stride, block == 0);
    }
    block += blocks;
  } while (block < x.blocks);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_QUANTIZED_ROWS_INL_H_
