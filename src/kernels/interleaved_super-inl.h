// Products of several rows with superblocks: prompts and batches. Per target: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_INTERLEAVED_SUPER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_INTERLEAVED_SUPER_INL_H_
#undef HEED_KERNELS_INTERLEAVED_SUPER_INL_H_
#else
#define HEED_KERNELS_INTERLEAVED_SUPER_INL_H_
#endif
// clang-format on

#include "kernels/interleaved_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#ifndef HEED_NO_LANE_DOTS

/// Where the words of a superblock come from: the groups, unpacked while they are multiplied.
template <class Block, int vectors>
struct GroupWords {
  static constexpr bool kZipped = false;
  const LaneBlock& of;

  template <int part, int w>
  HWY_INLINE void load(int64_t round, WordVec* value) const {
    load_values<Block, vectors, part, w>(of.at, of.words, round, value);
  }
};

/// Factors of one superblock of some groups, a lane each.
template <class Block, int vectors>
struct LaneFactors {
  HWY_ALIGN int32_t factor[kPartCount<Block> * vectors * kLaneCount];
  HWY_ALIGN int32_t mins[(Words32<Block>::kMinPairs + 1) * vectors * kLaneCount];

  HWY_INLINE void expand(const GroupPointers& at, const uint8_t* side) {
    const Words d;
    for (int v = 0; v < vectors; ++v) {
      Words32<Block>::factors(
          side + v / kGroupVectors * at.stride, v % kGroupVectors,
          [&](int64_t i, WordVec value)
              HWY_ATTR { hn::Store(value, d, factor + (i * vectors + v) * kLaneCount); },
          [&](int64_t i, WordVec value)
              HWY_ATTR { hn::Store(value, d, mins + (i * vectors + v) * kLaneCount); });
    }
  }
};

template <class Block, int rows, int vectors, int part, class Source, int... w>
HWY_INLINE void add_part_words(const LaneBlock& of, const Source& source, int64_t round,
                               WordVec (*sum)[vectors], std::integer_sequence<int, w...>) {
  const int64_t place = Words32<Block>::template place<part>(round);
  WordVec value[vectors];
  ((source.template load<part, w>(round, value),
    add_word<Block, rows, vectors>(of, place + w, value, sum)),
   ...);
}
#if HWY_ARCH_ARM_A64
template <class Block, int rows, int vectors, int part, class Source, int... w>
HWY_INLINE void add_part_pairs(const LaneBlock& of, const Source& source, int64_t round,
                               WordVec (*sum)[vectors], std::integer_sequence<int, w...>) {
  const int8_t* x = of.x.bytes + of.row * of.x.k + of.block * kBlockWeights<Block> +
                    4 * Words32<Block>::template place<part>(round);
  PairSums<rows, vectors> pairs;
  WordVec first[vectors];
  WordVec second[vectors];
  const auto zip = [&]() HWY_ATTR {
    if constexpr (!Source::kZipped) {
      zip_words(first, second, vectors);
    }
  };
  ((source.template load<part, 2 * w>(round, first),
    source.template load<part, 2 * w + 1>(round, second), zip(),
    pairs.add(x + 8 * w, of.x.k, first, second)),
   ...);
  pairs.add_to(sum);
}
#endif
template <class Block, int rows, int vectors, int part, class Source>
HWY_INLINE void add_part_products(const LaneBlock& of, const Source& source, int64_t round,
                                  WordVec (*sum)[vectors]) {
  constexpr int kWords = static_cast<int>(Words32<Block>::kPartWords);
#if HWY_ARCH_ARM_A64
  if constexpr (kByMatrix<Block>) {
    add_part_pairs<Block, rows, vectors, part>(of, source, round, sum,
                                               std::make_integer_sequence<int, kWords / 2>());
    return;
  }
#endif
  add_part_words<Block, rows, vectors, part>(of, source, round, sum,
                                             std::make_integer_sequence<int, kWords>());
}
/// One part of a superblock: its sums times its factors, added to `super`.
template <class Block, int rows, int vectors, int part, class Source>
HWY_INLINE void add_part(const LaneBlock& of, const Source& source, int64_t round,
                         const LaneFactors<Block, vectors>& factors, WordVec (*super)[vectors]) {
  using W = Words32<Block>;
  const Words d;
  const int64_t index = round * W::kParts + part;
  WordVec whole[rows][vectors];
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      whole[r][v] = hn::Zero(d);
      if constexpr (kLaneOffset<Block> != 0) {
        whole[r][v] = hn::Set(
            d, of.x.starts[((of.row + r) * of.x.blocks + of.block) * kPartCount<Block> + index]);
      }
    }
  }
  add_part_products<Block, rows, vectors, part>(of, source, round, whole);
  HWY_UNROLL(4)
  for (int v = 0; v < vectors; ++v) {
    const auto factor = hn::Load(d, factors.factor + (index * vectors + v) * kLaneCount);
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      super[r][v] = hn::Add(super[r][v], hn::Mul(whole[r][v], factor));
    }
  }
}
template <class Block, int rows, int vectors, class Source, int... part>
HWY_INLINE void add_parts(const LaneBlock& of, const Source& source, int64_t round,
                          const LaneFactors<Block, vectors>& factors, WordVec (*super)[vectors],
                          std::integer_sequence<int, part...>) {
  (add_part<Block, rows, vectors, part>(of, source, round, factors, super), ...);
}

/// The end of one superblock: the chain in C itself, which starts from zeros.
template <class Block, int rows, int vectors>
HWY_INLINE void add_chain(const LaneBlock& of, const LaneFactors<Block, vectors>& factors,
                          const WordVec (*super)[vectors], float* c, int64_t c_stride) {
  using W = Words32<Block>;
  const hn::ScalableTag<float> d;
  FloatVec scale[vectors];
  FloatVec min[vectors];
  HWY_UNROLL(4)
  for (int v = 0; v < vectors; ++v) {
    const uint8_t* mine = of.side + v / kGroupVectors * of.at.stride;
    scale[v] = W::scale(mine, v % kGroupVectors);
    if constexpr (W::kMins) {
      min[v] = W::min(mine, v % kGroupVectors);
    }
  }
  const int64_t blocks = of.x.blocks;
  const float* x_scales = of.x.scales + of.row * blocks + of.block;
  const int32_t* pairs = of.x.min_pairs + (of.row * blocks + of.block) * W::kMinPairs;
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r, x_scales += blocks, pairs += blocks * W::kMinPairs) {
    const auto x_scale = hn::Set(d, *x_scales);
    FloatVec sum[vectors];
    HWY_UNROLL(4)
    for (int v = 0; v < vectors; ++v) {
      sum[v] = hn::MulAdd(hn::ConvertTo(d, super[r][v]), hn::Mul(scale[v], x_scale),
                          hn::LoadU(d, c + r * c_stride + v * kLaneCount));
    }
    if constexpr (W::kMins) {
      WordVec less[vectors];
      HWY_UNROLL(4)
      for (int v = 0; v < vectors; ++v) {
        less[v] = hn::Zero(Words());
      }
      HWY_UNROLL(4)
      for (int64_t i = 0; i < W::kMinPairs; ++i) {
        const auto two = hn::Set(Words(), pairs[i]);
        HWY_UNROLL(4)
        for (int v = 0; v < vectors; ++v) {
          const int32_t* mins = factors.mins + (i * vectors + v) * kLaneCount;
          less[v] = add_pairs(less[v], hn::Load(Words(), mins), two);
        }
      }
      HWY_UNROLL(4)
      for (int v = 0; v < vectors; ++v) {
        sum[v] = hn::MulAdd(hn::ConvertTo(d, less[v]), hn::Mul(min[v], x_scale), sum[v]);
      }
    }
    HWY_UNROLL(4)
    for (int v = 0; v < vectors; ++v) {
      hn::StoreU(sum[v], d, c + r * c_stride + v * kLaneCount);
    }
  }
}

/// One superblock: its parts, then the chain.
template <class Block, int rows, int vectors, class Source>
HWY_INLINE void add_superblock(const LaneBlock& of, const Source& source,
                               const LaneFactors<Block, vectors>& factors, float* c,
                               int64_t c_stride) {
  using W = Words32<Block>;
  WordVec super[rows][vectors];
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      super[r][v] = hn::Zero(Words());
    }
  }
  for (int64_t round = 0; round < W::kRounds; ++round) {
    add_parts<Block, rows, vectors>(of, source, round, factors, super,
                                    std::make_integer_sequence<int, W::kParts>());
  }
  add_chain<Block, rows, vectors>(of, factors, super, c, c_stride);
}

/// C[rows, groups · 16] += rows of x from `row` on times superblocks of some groups.
template <class Block, int rows, int groups>
HWY_NOINLINE void multiply_super(const RoundedLanes& x, int64_t row, int64_t block, int64_t blocks,
                                 const GroupPointers& at, float* c, int64_t c_stride) {
  constexpr int vectors = groups * static_cast<int>(kGroupVectors);
  LaneFactors<Block, vectors> factors;
  for (int64_t b = block; b < block + blocks; ++b) {
    const LaneBlock of = lane_block<Block>(x, row, b, at);
    if constexpr (rows > 1 && rows <= 4) {
      fetch_block<Block, groups>(at, of.words);
    }
    factors.expand(at, of.side);
    add_superblock<Block, rows, vectors>(of, GroupWords<Block, vectors>{of}, factors, c, c_stride);
  }
}

template <class Block, int rows, int groups>
HWY_INLINE void multiply_lanes(const RoundedLanes& x, int64_t row, int64_t block, int64_t blocks,
                               const GroupPointers& at, float* c, int64_t c_stride) {
  if constexpr (Words32<Block>::kFactors) {
    multiply_super<Block, rows, groups>(x, row, block, blocks, at, c, c_stride);
  } else {
    multiply_plain<Block, rows, groups>(x, row, block, blocks, at, c, c_stride);
  }
}

/// A superblock of some groups as bytes, with its factors: unpacked once for many rows. For the
/// matrix instruction pairs of words are zipped.
template <class Block, int groups>
struct LanePanel {
  static constexpr bool kZipped = kByMatrix<Block>;
  static constexpr int kVectors = groups * static_cast<int>(kGroupVectors);
  using W = Words32<Block>;

  LaneFactors<Block, kVectors> factors;
  HWY_ALIGN int32_t words[kSuperblock / 4 * kVectors * kLaneCount];

  template <int part, int w>
  static HWY_INLINE int64_t place(int64_t round) {
    return ((round * W::kParts + part) * W::kPartWords + w) * kVectors * kLaneCount;
  }
  template <int part, int w>
  HWY_INLINE void load(int64_t round, WordVec* value) const {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      value[v] = hn::Load(Words(), words + place<part, w>(round) + v * kLaneCount);
    }
  }
  template <int part, int... w>
  HWY_INLINE void unpack_part(const GroupPointers& at, const uint8_t* from, int64_t round,
                              std::integer_sequence<int, w...>) {
    WordVec value[kVectors];
    const auto put = [&](int32_t* to) HWY_ATTR {
      for (int v = 0; v < kVectors; ++v) {
        hn::Store(value[v], Words(), to + v * kLaneCount);
      }
    };
    ((load_values<Block, kVectors, part, w>(at, from, round, value),
      put(words + place<part, w>(round))),
     ...);
#if HWY_ARCH_ARM_A64
    if constexpr (kZipped) {
      (zip_pair<part, w / 2 * 2>(round, std::bool_constant<w % 2 == 0>()), ...);
    }
#endif
  }
#if HWY_ARCH_ARM_A64
  template <int part, int w>
  HWY_INLINE void zip_pair(int64_t, std::false_type) {}
  template <int part, int w>
  HWY_INLINE void zip_pair(int64_t round, std::true_type) {
    WordVec first[kVectors];
    WordVec second[kVectors];
    load<part, w>(round, first);
    load<part, w + 1>(round, second);
    zip_words(first, second, kVectors);
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(first[v], Words(), words + place<part, w>(round) + v * kLaneCount);
      hn::Store(second[v], Words(), words + place<part, w + 1>(round) + v * kLaneCount);
    }
  }
#endif
  template <int... part>
  HWY_INLINE void unpack_round(const GroupPointers& at, const uint8_t* from, int64_t round,
                               std::integer_sequence<int, part...>) {
    (unpack_part<part>(at, from, round, std::make_integer_sequence<int, W::kPartWords>()), ...);
  }
  void unpack(const GroupPointers& at, int64_t block) {
    factors.expand(at, at.first + side_offset<Block>(block));
    for (int64_t round = 0; round < W::kRounds; ++round) {
      unpack_round(at, at.first + words_offset<Block>(block), round,
                   std::make_integer_sequence<int, W::kParts>());
    }
  }
};

/// Rows of x from `row` on times superblock `block`, which `panel` holds.
template <class Block, int rows, int groups>
HWY_NOINLINE void multiply_unpacked(const RoundedLanes& x, int64_t row, int64_t block,
                                    const GroupPointers& at, const LanePanel<Block, groups>& panel,
                                    float* c, int64_t c_stride) {
  add_superblock<Block, rows, LanePanel<Block, groups>::kVectors>(
      lane_block<Block>(x, row, block, at), panel, panel.factors, c, c_stride);
}

#endif  // HEED_NO_LANE_DOTS

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_INTERLEAVED_SUPER_INL_H_
