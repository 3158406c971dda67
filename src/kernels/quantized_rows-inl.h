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

#include <algorithm>

#include "kernels/quantized_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Words of one block's weights in lanes: at most the 32 bytes of a block.
using BlockTag = hn::CappedTag<int32_t, 8>;
using BlockVec = hn::Vec<BlockTag>;
constexpr auto kBlockLanes = static_cast<int64_t>(hn::MaxLanes(BlockTag()));
constexpr int64_t kBlockPieces = 8 / kBlockLanes;

/// Columns of B, one after the other in memory, `stride` blocks apart. Past the end the last one
/// again.
template <class Block>
struct BlockColumns {
  const Block* first;
  int64_t stride;
  int64_t count;

  HWY_INLINE const Block* at(int64_t column) const {
    return first + HWY_MIN(column, count - 1) * stride;
  }
};

constexpr int64_t kColumnBlocks = 96;         // of a column at a time
constexpr int64_t kQuantizedVeryFewRows = 4;  // rows of A that read B in this way

template <class Format>
HWY_INLINE void load_block(const BlockQ8* block, BlockVec* weights) {
  const BlockTag d;
  const hn::Repartition<int8_t, BlockTag> d8;
  for (int64_t i = 0; i < kBlockPieces; ++i) {
    weights[i] =
        Format::from_signed(d, hn::BitCast(d, hn::LoadU(d8, block->values + 4 * kBlockLanes * i)));
  }
}
/// The nibbles of `block`, and behind them of the fourth after it where a vector holds both.
template <class D>
HWY_INLINE hn::Vec<D> load_pairs(D d, const BlockQ4* block) {
  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<int32_t, 4> d32;
  const auto first = hn::BitCast(d32, hn::LoadU(d8, block->pairs));
  if constexpr (hn::MaxLanes(D()) == 4) {
    return first;
  } else {
    return hn::Combine(d, hn::BitCast(d32, hn::LoadU(d8, block[4].pairs)), first);
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

/// Sums of the four words in each 16 bytes of four vectors: those of vector j at place j there.
HWY_INLINE BlockVec sum_quads(const BlockVec* v) {
  const BlockTag d;
  const hn::Repartition<int64_t, BlockTag> d64;
  BlockVec pairs[2];
  for (int64_t j = 0; j < 2; ++j) {
    const auto a = v[2 * j];
    const auto b = v[2 * j + 1];
    pairs[j] = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  }
  const auto a = hn::BitCast(d64, pairs[0]);
  const auto b = hn::BitCast(d64, pairs[1]);
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, a, b)),
                 hn::BitCast(d, hn::InterleaveUpper(d64, a, b)));
}

/// Sum of the lanes of each of kBlockLanes vectors, a vector a lane.
template <class D = BlockTag>
HWY_INLINE BlockVec sum_each(const BlockVec* v) {
  const D d;
  const BlockVec first = sum_quads(v);
  if constexpr (hn::MaxLanes(D()) == 4) {
    return first;
  } else {
    const BlockVec second = sum_quads(v + 4);
    return hn::Add(hn::ConcatLowerLower(d, second, first), hn::ConcatUpperUpper(d, second, first));
  }
}

/// kBlockLanes blocks of a column with every row of x: store(r, sums). A block's products lie along
/// a vector.
template <class Format, class Store>
HWY_INLINE void group_sums(const BlockQ8* block, const QuantizedRows& x, int64_t rows, int64_t at,
                           const Store& store) {
  const BlockTag d;
  BlockVec weights[kBlockLanes][kBlockPieces];
  HWY_UNROLL(8)
  for (int64_t i = 0; i < kBlockLanes; ++i) {
    load_block<Format>(block + i, weights[i]);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t* words = x.words + (r * x.blocks + at) * Format::kWords;
    BlockVec part[kBlockLanes];
    HWY_UNROLL(8)
    for (int64_t i = 0; i < kBlockLanes; ++i) {
      part[i] = hn::Zero(d);
      for (int64_t piece = 0; piece < kBlockPieces; ++piece) {
        part[i] =
            Format::add_piece(d, part[i], weights[i][piece], words + i * Format::kWords, piece);
      }
    }
    store(r, sum_each(part));
  }
}

/// The nibbles of a block fill 16 bytes, so that vector j holds the blocks j, 4 + j. x lies in the
/// same way: see group_words().
template <class Format, class Store>
HWY_INLINE void group_sums(const BlockQ4* block, const QuantizedRows& x, int64_t rows, int64_t at,
                           const Store& store) {
  const BlockTag d;
  const auto mask = hn::Set(d, 0x0f0f0f0f);
  BlockVec weights[4][2];
  HWY_UNROLL(4)
  for (int64_t j = 0; j < 4; ++j) {
    const auto pairs = load_pairs(d, block + j);
    weights[j][0] = Format::from_nibbles(d, hn::And(pairs, mask));
    weights[j][1] = Format::from_nibbles(d, hn::And(hn::ShiftRight<4>(pairs), mask));
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t* words = x.words + (r * x.blocks + at) * Format::kWords;
    BlockVec part[4];
    HWY_UNROLL(4)
    for (int64_t j = 0; j < 4; ++j) {
      part[j] = hn::Zero(d);
      for (int64_t half = 0; half < 2; ++half) {
        part[j] = Format::add_quarter(d, part[j], weights[j][half], words + j * kBlockLanes,
                                      half * 4 * kBlockLanes);
      }
    }
    store(r, sum_quads(part));
  }
}

/// Words of kBlockLanes blocks of x in the order in which group_sums() reads them: [quarter of the
/// block's words][j][block 4i + j].
template <class Format>
void group_words(int32_t* words) {
  int32_t grouped[kBlockLanes * Format::kWords];
  for (int64_t block = 0; block < kBlockLanes; ++block) {
    for (int64_t w = 0; w < Format::kWords; ++w) {
      grouped[(w / 4 * 4 + block % 4) * kBlockLanes + block / 4 * 4 + w % 4] =
          words[block * Format::kWords + w];
    }
  }
  std::copy_n(grouped, kBlockLanes * Format::kWords, words);
}
/// Whole groups of each column's part; the blocks after them stay as they are.
template <class Format>
void group_row(const BlockQ4*, int32_t* words, int64_t blocks) {
  for (int64_t part = 0; part < blocks; part += kColumnBlocks) {
    const int64_t end = HWY_MIN(blocks, part + kColumnBlocks);
    for (int64_t b = part; b + kBlockLanes <= end; b += kBlockLanes) {
      group_words<Format>(words + b * Format::kWords);
    }
  }
}
template <class Format>
void group_row(const BlockQ8*, int32_t*, int64_t) {}

/// Whole sums of a column's blocks, which stand at [block, block + blocks) of k, with each of
/// `rows` rows of x: sums[r * row_stride + i].
template <class Format, class Block>
HWY_INLINE void column_sums(const Block* column, const QuantizedRows& x, int64_t rows,
                            int64_t block, int64_t blocks, int32_t* sums, int64_t row_stride) {
  const BlockTag d;
  int64_t b = 0;
  for (; b + kBlockLanes <= blocks; b += kBlockLanes) {
    group_sums<Format>(column + b, x, rows, block + b, [&](int64_t r, BlockVec whole) HWY_ATTR {
      const auto start = hn::LoadU(d, x.starts + r * x.blocks + block + b);
      hn::StoreU(hn::Add(whole, start), d, sums + r * row_stride + b);
    });
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

/// The scales of a column's blocks.
template <class Block>
HWY_INLINE void copy_scales(const Block* column, int64_t blocks, Half* scales) {
  constexpr int64_t kStep = 8;
  int64_t b = 0;
  for (; b + kStep <= blocks; b += kStep) {
    HWY_UNROLL(8)
    for (int64_t i = 0; i < kStep; ++i) {
      scales[b + i] = column[b + i].scale;
    }
  }
  for (; b < blocks; ++b) {
    scales[b] = column[b].scale;
  }
}

/// Up to kStreams columns times `rows` rows of x.
template <class Format, class Block>
void multiply_columns(const BlockColumns<Block>& columns, const QuantizedRows& x, int64_t rows,
                      ColumnSums& part, float* c, int64_t c_stride) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t block = 0;
  do {
    const int64_t blocks = HWY_MIN(kColumnBlocks, x.blocks - block);
    for (int64_t j = 0; j < kStreams; ++j) {  // past the end the last column again
      const Block* column = columns.at(j) + block;
      HWY_ALIGN Half halves[kColumnBlocks];
      copy_scales(column, blocks, halves);
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
