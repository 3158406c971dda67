// The micro-kernels of the product with interleaved weights: sums of a block in whole numbers, then
// one chain of fused multiply-adds over the blocks. Per target: include inside foreach_target
// files.
// clang-format off
#if defined(HEED_KERNELS_INTERLEAVED_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_INTERLEAVED_KERNEL_INL_H_
#undef HEED_KERNELS_INTERLEAVED_KERNEL_INL_H_
#else
#define HEED_KERNELS_INTERLEAVED_KERNEL_INL_H_
#endif
// clang-format on

#include <utility>

#include "kernels/interleaved_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
/// AVX-512 VNNI: unsigned bytes of weights times signed ones of x, four to a lane. Highway 1.0.3
/// has no name for the instruction.
struct LaneDots {
  static constexpr bool kUnsigned = true;
  template <bool full>
  static HWY_INLINE WordVec add(WordVec sum, WordVec weights, WordVec x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(x.raw));
    return sum;
  }
};
#elif HWY_TARGET == HWY_AVX2
/// pmaddubsw saturates with weights of 8 bits; with the sign moved to x it does not.
struct LaneDots {
  static constexpr bool kUnsigned = false;
  template <bool full>
  static HWY_INLINE WordVec add(WordVec sum, WordVec weights, WordVec x) {
    auto w = weights.raw;
    auto v = x.raw;
    if constexpr (full) {
      w = _mm256_xor_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
      v = _mm256_sign_epi8(v, w);
      w = _mm256_abs_epi8(w);
    }
    const auto two = _mm256_maddubs_epi16(w, v);
    return hn::Add(sum, WordVec{_mm256_madd_epi16(two, _mm256_set1_epi16(1))});
  }
};
#elif HWY_ARCH_ARM_A64
struct LaneDots {
  static constexpr bool kUnsigned = false;
  template <bool full>
  static HWY_INLINE WordVec add(WordVec sum, WordVec weights, WordVec x) {
    auto w = vreinterpretq_s8_s32(weights.raw);
    const auto v = vreinterpretq_s8_s32(x.raw);
    if constexpr (full) {
      w = veorq_s8(w, vdupq_n_s8(static_cast<int8_t>(0x80)));
    }
    const auto low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(v)));
    const auto high = vpaddlq_s16(vmull_high_s8(w, v));
    return hn::Add(sum, WordVec(vpaddq_s32(low, high)));
  }
};
/// One instruction of ARMv8.2 instead of six.
struct LaneDotInstruction {
  static constexpr bool kUnsigned = false;
  template <bool full>
  static HWY_INLINE WordVec add(WordVec sum, WordVec weights, WordVec x) {
    if constexpr (full) {
      weights = hn::Xor(weights, hn::Set(Words(), static_cast<int32_t>(0x80808080u)));
    }
    asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b"
        : "+w"(sum.raw)
        : "w"(weights.raw), "w"(x.raw));
    return sum;
  }
};
#else
/// Other targets keep to the order of the file.
#define HEED_NO_LANE_DOTS
#endif

/// Rows of activations, rounded to 8 bits in blocks as long as the weights'.
struct RoundedLanes {
  int8_t* bytes;       ///< [rows, k]
  float* scales;       ///< [rows, blocks]
  int32_t* starts;     ///< [rows, blocks, parts]: what takes the offset of the weights away
  int32_t* min_pairs;  ///< [rows, blocks, 4]: 16-bit pairs of sums of 32, as the minima lie
  float* sums;         ///< [rows, blocks]: of plain blocks with minima
  int64_t blocks;
  int64_t k;

  HWY_INLINE WordVec word(int64_t row, int64_t block, int64_t weights, int64_t w) const {
    int32_t four;
    std::memcpy(&four, bytes + row * k + block * weights + 4 * w, sizeof four);
    return hn::Set(Words(), four);
  }
};

/// Where a kernel reads weights: groups `stride` apart.
struct GroupPointers {
  const uint8_t* first;
  int64_t stride;
};

#ifndef HEED_NO_LANE_DOTS

template <class Block>
struct Words32<WithDotInstruction<Block>> : Words32<Block> {};
template <class Block>
struct Words32<WithMatrixInstruction<Block>> : Words32<Block> {};
template <class Block>
struct DotsOf {
  using Type = LaneDots;
};
#if HWY_ARCH_ARM_A64
template <class Block>
struct DotsOf<WithDotInstruction<Block>> {
  using Type = LaneDotInstruction;
};
template <class Block>
struct DotsOf<WithMatrixInstruction<Block>> {
  using Type = LaneDotInstruction;
};
#endif
/// Whether pairs of rows are multiplied by pairs of words, and what single rows are multiplied as.
template <class Block>
inline constexpr bool kByMatrix = false;
template <class Block>
inline constexpr bool kByMatrix<WithMatrixInstruction<Block>> = true;
template <class Block>
struct RowBlock {
  using Type = Block;
};
template <class Block>
struct RowBlock<WithMatrixInstruction<Block>> {
  using Type = WithDotInstruction<Block>;
};
/// sum + the products of four bytes of weights per lane with those of x.
template <class Block>
HWY_INLINE WordVec add_dots(WordVec sum, WordVec weights, WordVec x) {
  return DotsOf<Block>::Type::template add<Words32<Block>::kFull>(sum, weights, x);
}

template <class Block>
inline constexpr int64_t kPartCount = Words32<Block>::kRounds* Words32<Block>::kParts;
/// What the bytes are too large by, as the dot product sees them.
template <class Block>
inline constexpr int32_t kLaneOffset =
    DotsOf<Block>::Type::kUnsigned || !Words32<Block>::kFull ? Words32<Block>::kOffset : 0;

template <class Block, int vectors, int w>
HWY_INLINE void load_values(const GroupPointers& at, const uint8_t* words, WordVec* value) {
  HWY_UNROLL(4)
  for (int v = 0; v < vectors; ++v) {
    value[v] =
        Words32<Block>::template value<w>(words + v / kGroupVectors * at.stride, v % kGroupVectors);
  }
}
template <class Block, int vectors, int part, int w>
HWY_INLINE void load_values(const GroupPointers& at, const uint8_t* words, int64_t round,
                            WordVec* value) {
  HWY_UNROLL(4)
  for (int v = 0; v < vectors; ++v) {
    value[v] = Words32<Block>::template value<part, w>(words + v / kGroupVectors * at.stride, round,
                                                       v % kGroupVectors);
  }
}
/// One block of some groups, and the rows of x from `row` on that it is multiplied by.
struct LaneBlock {
  const RoundedLanes& x;
  int64_t row;
  int64_t block;
  const GroupPointers& at;
  const uint8_t* words;
  const uint8_t* side;
};
template <class Block>
HWY_INLINE LaneBlock lane_block(const RoundedLanes& x, int64_t row, int64_t block,
                                const GroupPointers& at) {
  return {x,
          row,
          block,
          at,
          at.first + words_offset<Block>(block),
          at.first + side_offset<Block>(block)};
}
/// Products of word w of a block with every row.
template <class Block, int rows, int vectors>
HWY_INLINE void add_word(const LaneBlock& of, int64_t w, const WordVec* value,
                         WordVec (*sum)[vectors]) {
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    const auto four = of.x.word(of.row + r, of.block, kBlockWeights<Block>, w);
    for (int v = 0; v < vectors; ++v) {
      sum[r][v] = add_dots<Block>(sum[r][v], value[v], four);
    }
  }
}
template <class Block, int rows, int vectors, int... w>
HWY_INLINE void add_plain_words(const LaneBlock& of, WordVec (*sum)[vectors],
                                std::integer_sequence<int, w...>) {
  WordVec value[vectors];
  ((load_values<Block, vectors, w>(of.at, of.words, value),
    add_word<Block, rows, vectors>(of, w, value, sum)),
   ...);
}

#if HWY_ARCH_ARM_A64

/// Words w and w + 1 of four columns become eight bytes of columns 0 and 1, and of 2 and 3.
HWY_INLINE void zip_words(WordVec* low, WordVec* high, int vectors) {
  for (int v = 0; v < vectors; ++v) {
    const WordVec first(vzip1q_s32(low[v].raw, high[v].raw));
    high[v] = WordVec(vzip2q_s32(low[v].raw, high[v].raw));
    low[v] = first;
  }
}

/// Sums of pairs of rows with four columns per vector: [row, column] of columns 0 and 1, and of 2
/// and 3. An odd row is multiplied twice.
template <int rows, int vectors>
struct PairSums {
  static constexpr int kPairs = (rows + 1) / 2;
  WordVec sum[kPairs][vectors][2];

  HWY_INLINE PairSums() {
    HWY_UNROLL(4)
    for (int p = 0; p < kPairs; ++p) {
      HWY_UNROLL(4)
      for (int v = 0; v < vectors; ++v) {
        sum[p][v][0] = sum[p][v][1] = hn::Zero(Words());
      }
    }
  }
  static HWY_INLINE WordVec add_eight(WordVec to, int8x16_t x, WordVec weights) {
    asm(".arch armv8.6-a\n\tsmmla %0.4s, %1.16b, %2.16b" : "+w"(to.raw) : "w"(x), "w"(weights.raw));
    return to;
  }
  /// Products of eight bytes per row, from `x` on and `k` bytes apart, with zipped words.
  HWY_INLINE void add(const int8_t* x, int64_t k, const WordVec* first, const WordVec* second) {
    HWY_UNROLL(4)
    for (int p = 0; p < kPairs; ++p) {
      const int8_t* upper = x + 2 * p * k;
      const int8_t* lower = 2 * p + 1 < rows ? upper + k : upper;
      const int8x16_t both = vcombine_s8(vld1_s8(upper), vld1_s8(lower));
      HWY_UNROLL(4)
      for (int v = 0; v < vectors; ++v) {
        sum[p][v][0] = add_eight(sum[p][v][0], both, first[v]);
        sum[p][v][1] = add_eight(sum[p][v][1], both, second[v]);
      }
    }
  }
  /// Adds row by row what was gathered here.
  HWY_INLINE void add_to(WordVec (*to)[vectors]) const {
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      HWY_UNROLL(4)
      for (int v = 0; v < vectors; ++v) {
        const auto left = vreinterpretq_s64_s32(sum[r / 2][v][0].raw);
        const auto right = vreinterpretq_s64_s32(sum[r / 2][v][1].raw);
        const auto four = r % 2 == 0 ? vzip1q_s64(left, right) : vzip2q_s64(left, right);
        to[r][v] = hn::Add(to[r][v], WordVec(vreinterpretq_s32_s64(four)));
      }
    }
  }
};

/// Words 2w and 2w + 1 of a plain block, zipped; their bytes as signed numbers.
template <class Block, int vectors, int w>
HWY_INLINE void load_pair(const LaneBlock& of, WordVec* first, WordVec* second) {
  load_values<Block, vectors, 2 * w>(of.at, of.words, first);
  load_values<Block, vectors, 2 * w + 1>(of.at, of.words, second);
  if constexpr (Words32<Block>::kFull) {
    const auto sign = hn::Set(Words(), static_cast<int32_t>(0x80808080u));
    for (int v = 0; v < vectors; ++v) {
      first[v] = hn::Xor(first[v], sign);
      second[v] = hn::Xor(second[v], sign);
    }
  }
  zip_words(first, second, vectors);
}
template <class Block, int rows, int vectors, int... w>
HWY_INLINE void add_plain_pairs(const LaneBlock& of, WordVec (*sum)[vectors],
                                std::integer_sequence<int, w...>) {
  const int8_t* x = of.x.bytes + of.row * of.x.k + of.block * kBlockWeights<Block>;
  PairSums<rows, vectors> pairs;
  WordVec first[vectors];
  WordVec second[vectors];
  ((load_pair<Block, vectors, w>(of, first, second), pairs.add(x + 8 * w, of.x.k, first, second)),
   ...);
  pairs.add_to(sum);
}

#endif

/// The products of a plain block with every row.
template <class Block, int rows, int vectors>
HWY_INLINE void add_plain(const LaneBlock& of, WordVec (*sum)[vectors]) {
#if HWY_ARCH_ARM_A64
  if constexpr (kByMatrix<Block>) {
    add_plain_pairs<Block, rows, vectors>(of, sum, std::make_integer_sequence<int, 4>());
    return;
  }
#endif
  add_plain_words<Block, rows, vectors>(of, sum, std::make_integer_sequence<int, 8>());
}

/// Asks for the weights that come `kAhead` bytes later.
template <class Block, int groups>
HWY_INLINE void fetch_block(const GroupPointers& at, const uint8_t* words) {
  constexpr int64_t kAhead = 2048;
  using I = Interleaved<Block>;
  for (int g = 0; g < groups; ++g) {
    HWY_UNROLL(8)
    for (int64_t line = 0; line < I::kWords * 64 + I::kSide; line += 64) {
      fetch_later(words + g * at.stride + kAhead + line);
    }
  }
}

/// C[rows, groups · 16] (+)= rows of x from `row` on times blocks of plain groups.
template <class Block, int rows, int groups>
HWY_NOINLINE void multiply_plain(const RoundedLanes& x, int64_t row, int64_t block, int64_t blocks,
                                 const GroupPointers& at, float* c, int64_t c_stride) {
  using W = Words32<Block>;
  constexpr int vectors = groups * static_cast<int>(kGroupVectors);
  const hn::ScalableTag<float> d;
  const Words di;
  FloatVec sum[rows][vectors];
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sum[r][v] = block == 0 ? hn::Zero(d) : hn::LoadU(d, c + r * c_stride + v * kLaneCount);
    }
  }
  for (int64_t b = block; b < block + blocks; ++b) {
    const LaneBlock of = lane_block<Block>(x, row, b, at);
    if constexpr (rows > 1 && rows <= 4) {
      fetch_block<Block, groups>(at, of.words);
    }
    WordVec whole[rows][vectors];
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        whole[r][v] = kLaneOffset<Block> != 0 ? hn::Set(di, x.starts[(row + r) * x.blocks + b])
                                              : hn::Zero(di);
      }
    }
    add_plain<Block, rows, vectors>(of, whole);
    HWY_UNROLL(4)
    for (int v = 0; v < vectors; ++v) {
      const uint8_t* mine = of.side + v / kGroupVectors * at.stride;
      const auto scale = W::scale(mine, v % kGroupVectors);
      HWY_UNROLL(8)
      for (int r = 0; r < rows; ++r) {
        const int64_t index = (row + r) * x.blocks + b;
        const auto both = hn::Mul(scale, hn::Set(d, x.scales[index]));
        sum[r][v] = hn::MulAdd(hn::ConvertTo(d, whole[r][v]), both, sum[r][v]);
        if constexpr (W::kMins) {
          const auto min = hn::Mul(W::min(mine, v % kGroupVectors), hn::Set(d, x.scales[index]));
          sum[r][v] = hn::MulAdd(hn::Set(d, x.sums[index]), min, sum[r][v]);
        }
      }
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      hn::StoreU(sum[r][v], d, c + r * c_stride + v * kLaneCount);
    }
  }
}

/// sum + products of 16-bit pairs.
HWY_INLINE WordVec add_pairs(WordVec sum, WordVec a, WordVec b) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#elif HWY_ARCH_X86
  const Words d;
  const hn::Repartition<int16_t, Words> d16;
  auto unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, a), hn::BitCast(d16, b), sum, unused);
#else
  const auto low = [](WordVec v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  sum = hn::Add(sum, hn::Mul(low(a), low(b)));
  return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)));
#endif
}

#endif  // HEED_NO_LANE_DOTS

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_INTERLEAVED_KERNEL_INL_H_
