// The product of block types with very few rows (decoding alone): columns of B are read one after
// the other as they lie in memory and multiplied as bytes. A block's products are added up along
// the lanes in whole numbers, its scales multiplied in: the sum is exact in any order. Per target:
// include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_QUANTIZED_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_QUANTIZED_COLUMNS_INL_H_
#undef HEED_KERNELS_QUANTIZED_COLUMNS_INL_H_
#else
#define HEED_KERNELS_QUANTIZED_COLUMNS_INL_H_
#endif
// clang-format on

#include <limits>

#include "kernels/quantized_expand_k-inl.h"
#include "kernels/quantized_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Rows of activations, rounded in blocks as long as the weights'.
struct RoundedRows {
  int8_t* bytes;    ///< [rows, k], for very few rows
  int16_t* shorts;  ///< [rows, k], for more
  float* scales;    ///< [rows, blocks]
  int16_t* sums;    ///< [rows, k / 16]: of 16 activations, in a superblock the even ones first
  int64_t blocks;
  int64_t k;
};

/// One block of activations: to −127 … 127, to the nearest even. A block that is not finite gets
/// NaN for its scale; one whose scale's inverse overflows counts as zeros.
template <int64_t weights>
void round_block(const float* x, const RoundedRows& rows, int64_t row, int64_t block) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d);
  auto finite = hn::Eq(largest, largest);
  for (int64_t i = 0; i < weights; i += lanes) {
    const auto size = hn::Abs(hn::LoadU(d, x + i));
    finite = hn::And(finite, hn::Le(size, hn::Set(d, std::numeric_limits<float>::max())));
    largest = hn::Max(largest, size);
  }
  const bool usable = hn::AllTrue(d, finite);
  const float most = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float inverse = usable && most > 0 ? 127.0f / most : 0.0f;
  const bool zero = !(inverse <= std::numeric_limits<float>::max()) || inverse == 0.0f;
  const auto factor = hn::Set(d, zero ? 0.0f : inverse);
  const int64_t first = row * rows.k + block * weights;
  for (int64_t part = 0; part < weights / 16; ++part) {
    auto sum = hn::Zero(di);
    for (int64_t i = 16 * part; i < 16 * part + 16; i += lanes) {
      const auto v = usable ? hn::LoadU(d, x + i) : hn::Zero(d);
      const auto whole = hn::NearestInt(hn::Mul(v, factor));
      sum = hn::Add(sum, whole);
      if (rows.bytes != nullptr) {
        const hn::Rebind<int8_t, decltype(d)> d8;
        hn::StoreU(hn::DemoteTo(d8, whole), d8, rows.bytes + first + i);
      } else {
        const hn::Rebind<int16_t, decltype(d)> d16;
        hn::StoreU(hn::DemoteTo(d16, whole), d16, rows.shorts + first + i);
      }
    }
    const int64_t place = weights == kBlock ? part : part % 2 * 8 + part / 2;
    rows.sums[first / 16 + place] = static_cast<int16_t>(hn::GetLane(hn::SumOfLanes(di, sum)));
  }
  rows.scales[row * rows.blocks + block] = !usable ? std::numeric_limits<float>::quiet_NaN()
                                           : zero  ? 0.0f
                                                   : most / 127.0f;
}

/// Sums of neighbouring products. Bytes of w are unsigned and at most 63, or signed and from −127.
template <bool Signed, class D16 = ShortTag>
HWY_INLINE ShortVec pair_products(ByteVec w, ByteVec x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (Signed) {
    const auto size = _mm256_abs_epi8(w.raw);
    return ShortVec{_mm256_maddubs_epi16(size, _mm256_sign_epi8(x.raw, w.raw))};
  } else {
    return ShortVec{_mm256_maddubs_epi16(w.raw, x.raw)};
  }
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
  if constexpr (Signed) {
    const auto size = _mm_abs_epi8(w.raw);
    return ShortVec{_mm_maddubs_epi16(size, _mm_sign_epi8(x.raw, w.raw))};
  } else {
    return ShortVec{_mm_maddubs_epi16(w.raw, x.raw)};
  }
#else
  const D16 d16;
  const auto low = [&](ByteVec v) HWY_ATTR {
    return hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, v)));
  };
  const auto high = [&](ByteVec v) HWY_ATTR { return hn::ShiftRight<8>(hn::BitCast(d16, v)); };
  return hn::Add(hn::Mul(low(w), low(x)), hn::Mul(high(w), high(x)));
#endif
}

/// sum + the products of neighbouring 16-bit numbers.
HWY_INLINE BlockVec add_short_products(BlockVec sum, ShortVec a, ShortVec b) {
  const BlockTag d;
  return Pairs::add_products(sum, hn::BitCast(d, a), hn::BitCast(d, b));
}

/// The factor of vector j in all its lanes.
HWY_INLINE ShortVec factor_at(const ShortVec& factors, int64_t j) {
  const ByteTag d;
  const auto index = hn::Set(ShortTag(), static_cast<int16_t>(0x0100 + 0x0202 * j));
  return hn::BitCast(ShortTag(),
                     hn::TableLookupBytes(hn::BitCast(d, factors), hn::BitCast(d, index)));
}

constexpr int64_t kColumnGroup = kBlockLanes;  // columns whose sums become lanes of a vector
constexpr int64_t kColumnRows = 4;             // rows that share an expanded block
constexpr int64_t kColumnsFewRows = 8;         // rows that are multiplied in this way
constexpr int64_t kColumnParts = 48;           // blocks of a column at a time, over all rows

/// What a group of columns gives before the chain over their blocks.
template <class Block>
struct GroupSums {
  using Scale = typename Expand<Block>::Scale;
  static constexpr bool kWholeMins = Expand<Block>::kMins && kBlockWeights<Block> == kSuperblock;
  static constexpr int64_t kMins = kWholeMins ? kColumnParts : 1;
  HWY_ALIGN int32_t whole[kColumnParts][kColumnGroup][kBlockLanes];  // [row, block]
  HWY_ALIGN int32_t mins[kMins][kColumnGroup][kBlockLanes];
  HWY_ALIGN Scale scales[kColumnParts][kColumnGroup];
  HWY_ALIGN Scale min_scales[kColumnParts][kColumnGroup];
};

/// A block of a group and the rows it is multiplied by.
struct GroupBlock {
  int64_t row;  ///< the first of `rows` rows of x
  int64_t rows;
  int64_t block;  ///< the first of the `blocks` blocks whose sums a group holds
  int64_t blocks;
  int64_t b;       ///< which of these
  int64_t column;  ///< in the group
};

/// Products of one block with some rows of x: stores vectors of partial sums.
template <class Block>
HWY_INLINE void multiply_block(const Block& from, const RoundedRows& x, const GroupBlock& place,
                               GroupSums<Block>& sums) {
  const auto [row, rows, block, blocks, b, column] = place;
  using E = Expand<Block>;
  constexpr int64_t kWeights = kBlockWeights<Block>;
  constexpr int64_t kGroups = kWeights / 32;
  constexpr int64_t kSums = kWeights / 16;
  const BlockTag d;
  const E expand(from);
  ByteVec v[kGroups][kPieces];
  expand.values(v);
  Factors scales;
  Factors mins;
  if constexpr (kWeights == kSuperblock) {
    scales = expand.scales();
    if constexpr (E::kMins) {
      mins = expand.mins();
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int8_t* bytes = x.bytes + (row + r) * x.k + (block + b) * kWeights;
    const int16_t* x_sums = x.sums + (row + r) * (x.k / 16) + (block + b) * kSums;
    auto sum = hn::Zero(d);
    HWY_UNROLL(8)
    for (int64_t j = 0; j < kGroups; ++j) {
      for (int64_t piece = 0; piece < kPieces; ++piece) {
        const auto two = pair_products<E::kSigned>(v[j][piece], bytes_at(bytes + 32 * j, piece));
        const auto scale = kWeights == kSuperblock ? factor_at(scales.lanes[piece], j)
                                                   : hn::Set(ShortTag(), int16_t{1});
        sum = add_short_products(sum, two, scale);
      }
    }
    const int64_t at = (row + r) * blocks + b;
    if constexpr (kWeights == kSuperblock) {
      if constexpr (E::kOffset != 0) {
        auto moved = hn::Zero(d);
        for (int64_t piece = 0; piece < kPieces; ++piece) {
          moved = add_short_products(moved, scales.lanes[piece],
                                     hn::LoadU(ShortTag(), x_sums + 8 * piece));
        }
        sum = hn::Sub(sum, hn::Mul(moved, hn::Set(d, E::kOffset)));
      }
      if constexpr (E::kMins) {
        auto less = hn::Zero(d);
        for (int64_t piece = 0; piece < kPieces; ++piece) {
          less = add_short_products(less, mins.lanes[piece],
                                    hn::LoadU(ShortTag(), x_sums + 8 * piece));
        }
        hn::Store(less, d, sums.mins[at][column]);
      }
    } else if constexpr (E::kOffset != 0) {
      const int32_t total = x_sums[0] + x_sums[1];
      sum = hn::Sub(sum, hn::IfThenElseZero(hn::FirstN(d, 1), hn::Set(d, E::kOffset * total)));
    }
    hn::Store(sum, d, sums.whole[at][column]);
  }
  if (row == 0) {
    sums.scales[b][column] = expand.scale();
    if constexpr (E::kMins) {
      sums.min_scales[b][column] = expand.min();
    }
  }
}

/// The chain over `blocks` blocks from `block` on of one row for a group of columns, from and to c.
template <class Block>
HWY_INLINE void add_group(const RoundedRows& x, int64_t row, int64_t block, int64_t blocks,
                          const GroupSums<Block>& sums, float* c) {
  using E = Expand<Block>;
  const BlockTag di;
  const hn::Rebind<float, BlockTag> d;
  auto sum = block == 0 ? hn::Zero(d) : hn::LoadU(d, c);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = row * blocks + b;
    BlockVec parts[kColumnGroup];
    HWY_UNROLL(8)
    for (int64_t i = 0; i < kColumnGroup; ++i) {
      parts[i] = hn::Load(di, sums.whole[at][i]);
    }
    const auto x_scale = hn::Set(d, x.scales[row * x.blocks + block + b]);
    const auto scale = hn::Mul(load(d, sums.scales[b]), x_scale);
    sum = hn::MulAdd(hn::ConvertTo(d, sum_each(parts)), scale, sum);
    if constexpr (E::kMins) {
      const auto min = hn::Mul(hn::Neg(load(d, sums.min_scales[b])), x_scale);
      if constexpr (GroupSums<Block>::kWholeMins) {
        HWY_UNROLL(8)
        for (int64_t i = 0; i < kColumnGroup; ++i) {
          parts[i] = hn::Load(di, sums.mins[at][i]);
        }
        sum = hn::MulAdd(hn::ConvertTo(d, sum_each(parts)), min, sum);
      } else {
        const int16_t* two = x.sums + row * (x.k / 16) + 2 * (block + b);
        sum = hn::MulAdd(hn::Set(d, static_cast<float>(two[0] + two[1])), min, sum);
      }
    }
  }
  hn::StoreU(sum, d, c);
}

/// Up to kColumnGroup columns times `rows` rows of x, into c [rows, c_stride].
template <class Block>
void multiply_group(const BlockColumns<Block>& columns, const RoundedRows& x, int64_t rows,
                    GroupSums<Block>& sums, float* c, int64_t c_stride) {
  const int64_t most = kColumnParts / rows;
  int64_t block = 0;
  do {
    const int64_t blocks = HWY_MIN(most, x.blocks - block);
    for (int64_t j = 0; j < kColumnGroup; ++j) {  // past the end the last column again
      const Block* column = columns.at(j) + block;
      for (int64_t row = 0; row < rows; row += kColumnRows) {
        const int64_t some = HWY_MIN(kColumnRows, rows - row);
        for (int64_t b = 0; b < blocks; ++b) {
          multiply_block(column[b], x, {row, some, block, blocks, b, j}, sums);
        }
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      add_group(x, row, block, blocks, sums, c + row * c_stride);
    }
    block += blocks;
  } while (block < x.blocks);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_QUANTIZED_COLUMNS_INL_H_
