// Columns of any block type as panels of 16-bit pairs, an output per lane. Per target: include
// inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_QUANTIZED_BLOCKS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_QUANTIZED_BLOCKS_PANEL_INL_H_
#undef HEED_KERNELS_QUANTIZED_BLOCKS_PANEL_INL_H_
#else
#define HEED_KERNELS_QUANTIZED_BLOCKS_PANEL_INL_H_
#endif
// clang-format on

#include "kernels/quantized_columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

constexpr int kBlockVectors = 2;
constexpr auto kWordLanes = static_cast<int64_t>(hn::MaxLanes(Words()));
constexpr int64_t kBlockPanel = kBlockVectors * kWordLanes;

/// A panel's part of B: per block [words][kBlockPanel] of pairs, then of the minima's pairs, then
/// the scale and the negated scale of the minima.
template <int64_t weights, bool mins>
struct Panel {
  static constexpr int64_t kWeights = weights;
  static constexpr bool kMins = mins;
  static constexpr int64_t kPairs = kWeights / 2;
  static constexpr int64_t kMinPairs = kMins ? kWeights / 32 : 0;
  static constexpr int64_t kWords = kPairs + kMinPairs + (kMins ? 2 : 1);
};

template <class Block>
using PanelOf = Panel<kBlockWeights<Block>, Expand<Block>::kMins>;

/// One block as 16-bit numbers: [weights], then minima [weights / 16] in the order of x's sums.
template <class Block>
HWY_INLINE void widen_block(const Block& block, int16_t* shorts, float* scale, float* min) {
  using E = Expand<Block>;
  constexpr int64_t kWeights = kBlockWeights<Block>;
  const E expand(block);
  ByteVec v[kWeights / 32][kPieces];
  expand.values(v);
  HWY_ALIGN int8_t values[kWeights];
  for (int64_t j = 0; j < kWeights / 32; ++j) {
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      hn::Store(v[j][piece], ByteTag(),
                reinterpret_cast<uint8_t*>(values) + 32 * j + kByteLanes * piece);
    }
  }
  HWY_ALIGN int16_t scales[16];
  if constexpr (kWeights == kSuperblock) {
    const Factors factors = expand.scales();
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      hn::Store(factors.lanes[piece], ShortTag(), scales + 8 * piece);
    }
  }
  const hn::CappedTag<int16_t, 16> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(d16));
  for (int64_t part = 0; part < kWeights / 16; ++part) {
    for (int64_t i = 16 * part; i < 16 * part + 16; i += kLanes) {
      auto wide = hn::PromoteTo(d16, hn::LoadU(d8, values + i));
      if constexpr (E::kOffset != 0) {
        wide = hn::Sub(wide, hn::Set(d16, int16_t{E::kOffset}));
      }
      if constexpr (kWeights == kSuperblock) {
        wide = hn::Mul(wide, hn::Set(d16, scales[part % 2 * 8 + part / 2]));
      }
      hn::StoreU(wide, d16, shorts + i);
    }
  }
  const auto number = [](auto value) {
    if constexpr (std::is_same_v<decltype(value), Half>) {
      return to_float(value);
    } else {
      return value;
    }
  };
  *scale = number(expand.scale());
  if constexpr (E::kMins) {
    *min = -number(expand.min());
    if constexpr (kWeights == kSuperblock) {
      const Factors mins = expand.mins();
      for (int64_t piece = 0; piece < kPieces; ++piece) {
        hn::StoreU(mins.lanes[piece], ShortTag(), shorts + kWeights + 8 * piece);
      }
    } else {
      shorts[kWeights] = shorts[kWeights + 1] = 1;
    }
  }
}

/// `blocks` blocks of kBlockPanel columns as a panel's part.
template <class Block>
void pack_blocks(const Block* const* column, int64_t blocks, int32_t* words) {
  using P = PanelOf<Block>;
  constexpr int64_t kShorts = 2 * (P::kPairs + P::kMinPairs + 3) / 4 * 4;
  constexpr int64_t kRow = kShorts + 32;  // keeps columns off the same lines of L1
  HWY_ALIGN int16_t shorts[kBlockPanel * kRow];
  const Words d;
  for (int64_t b = 0; b < blocks; ++b, words += P::kWords * kBlockPanel) {
    const uint8_t* row[kBlockPanel];
    auto* scales = reinterpret_cast<float*>(words + (P::kPairs + P::kMinPairs) * kBlockPanel);
    for (int64_t i = 0; i < kBlockPanel; ++i) {
      int16_t* mine = shorts + i * kRow;
      float unused;
      widen_block(column[i][b], mine, scales + i, P::kMins ? scales + kBlockPanel + i : &unused);
      row[i] = reinterpret_cast<const uint8_t*>(mine);
    }
    constexpr int64_t kPacked = P::kPairs + P::kMinPairs;
    for (int64_t v = 0; v < kBlockVectors; ++v) {
      for (int64_t w = 0; w < kPacked; w += 4) {
        WordVec four[4];
        load_words(row + v * kWordLanes, 4 * w, four);
        for (int64_t i = 0; i < HWY_MIN(int64_t{4}, kPacked - w); ++i) {
          hn::Store(four[i], d, words + (w + i) * kBlockPanel + v * kWordLanes);
        }
      }
    }
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_QUANTIZED_BLOCKS_PANEL_INL_H_
