// The product of one row with interleaved superblocks: decoding. Per target: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_INTERLEAVED_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_INTERLEAVED_STREAM_INL_H_
#undef HEED_KERNELS_INTERLEAVED_STREAM_INL_H_
#else
#define HEED_KERNELS_INTERLEAVED_STREAM_INL_H_
#endif
// clang-format on

#include "kernels/interleaved_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#ifndef HEED_NO_LANE_DOTS

constexpr int kGroupWide = static_cast<int>(kGroupVectors);

/// sum + the products of four bytes of weights per lane with the four bytes at x.
template <class Block>
HWY_INLINE WordVec add_dots_at(WordVec sum, WordVec weights, const int8_t* x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  using Four [[gnu::may_alias]] = int32_t;
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum.raw)
      : "v"(weights.raw), "m"(*reinterpret_cast<const Four*>(x)));
  return sum;
#else
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return add_dots<Block>(sum, weights, hn::Set(Words(), four));
#endif
}

/// Factors of one superblock of a group, in registers.
template <class Block>
struct StreamFactors {
  WordVec factor[kPartCount<Block>][kGroupWide];
  WordVec mins[Words32<Block>::kMinPairs + 1][kGroupWide];

  HWY_INLINE explicit StreamFactors(const uint8_t* side) {
    HWY_UNROLL(4)
    for (int v = 0; v < kGroupWide; ++v) {
      Words32<Block>::factors(
          side, v, [&](int64_t i, WordVec value) HWY_ATTR { factor[i][v] = value; },
          [&](int64_t i, WordVec value) HWY_ATTR { mins[i][v] = value; });
    }
  }
};

/// One part of a superblock: its sums times its factors, added to `super`.
template <class Block, int round, int part, int... w>
HWY_INLINE void stream_part(const uint8_t* words, const int8_t* x, const int32_t* starts,
                            const StreamFactors<Block>& factors, WordVec* super,
                            std::integer_sequence<int, w...>) {
  using W = Words32<Block>;
  const Words d;
  constexpr int index = round * static_cast<int>(W::kParts) + part;
  constexpr int64_t place = W::template place<part>(round);
  HWY_UNROLL(4)
  for (int v = 0; v < kGroupWide; ++v) {
    auto whole = kLaneOffset<Block> != 0 ? hn::Set(d, starts[index]) : hn::Zero(d);
    ((whole = add_dots_at<Block>(whole, W::template value<part, w>(words, round, v),
                                 x + 4 * (place + w))),
     ...);
    super[v] = hn::Add(super[v], hn::Mul(whole, factors.factor[index][v]));
  }
}

template <class Block, int round, int... part>
HWY_INLINE void stream_round(const uint8_t* words, const int8_t* x, const int32_t* starts,
                             const StreamFactors<Block>& factors, WordVec* super,
                             std::integer_sequence<int, part...>) {
  (stream_part<Block, round, part>(words, x, starts, factors, super,
                                   std::make_integer_sequence<int, Words32<Block>::kPartWords>()),
   ...);
}

template <class Block, int... round>
HWY_INLINE void stream_rounds(const uint8_t* words, const int8_t* x, const int32_t* starts,
                              const StreamFactors<Block>& factors, WordVec* super,
                              std::integer_sequence<int, round...>) {
  (stream_round<Block, round>(words, x, starts, factors, super,
                              std::make_integer_sequence<int, Words32<Block>::kParts>()),
   ...);
}

/// c[16] (+)= row `row` of x times one group of superblocks: multiply_super() with everything in
/// registers and unrolled. Nothing is asked for in advance: the processor's own prefetchers follow
/// one stream best (46 of 49 GB/s that plain reading gets; 30 to 41 with prefetch instructions, 28
/// with two streams).
template <class Block>
HWY_NOINLINE void stream_super(const RoundedLanes& x, int64_t row, int64_t block, int64_t blocks,
                               const GroupPointers& at, float* c) {
  using W = Words32<Block>;
  const hn::ScalableTag<float> d;
  const Words di;
  FloatVec sum[kGroupWide];
  HWY_UNROLL(4)
  for (int v = 0; v < kGroupWide; ++v) {
    sum[v] = block == 0 ? hn::Zero(d) : hn::LoadU(d, c + v * kLaneCount);
  }
  for (int64_t b = block; b < block + blocks; ++b) {
    const uint8_t* side = at.first + side_offset<Block>(b);
    const uint8_t* words = at.first + words_offset<Block>(b);
    const int64_t index = row * x.blocks + b;
    const StreamFactors<Block> factors(side);
    WordVec super[kGroupWide];
    HWY_UNROLL(4)
    for (int v = 0; v < kGroupWide; ++v) {
      super[v] = hn::Zero(di);
    }
    stream_rounds<Block>(words, x.bytes + row * x.k + b * kBlockWeights<Block>,
                         x.starts + index * kPartCount<Block>, factors, super,
                         std::make_integer_sequence<int, W::kRounds>());
    const auto x_scale = hn::Set(d, x.scales[index]);
    HWY_UNROLL(4)
    for (int v = 0; v < kGroupWide; ++v) {
      sum[v] = hn::MulAdd(hn::ConvertTo(d, super[v]), hn::Mul(W::scale(side, v), x_scale), sum[v]);
      if constexpr (W::kMins) {
        auto less = hn::Zero(di);
        for (int64_t i = 0; i < W::kMinPairs; ++i) {
          less = add_pairs(less, factors.mins[i][v],
                           hn::Set(di, x.min_pairs[index * W::kMinPairs + i]));
        }
        sum[v] = hn::MulAdd(hn::ConvertTo(d, less), hn::Mul(W::min(side, v), x_scale), sum[v]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kGroupWide; ++v) {
    hn::StoreU(sum[v], d, c + v * kLaneCount);
  }
}

#endif  // HEED_NO_LANE_DOTS

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_INTERLEAVED_STREAM_INL_H_
