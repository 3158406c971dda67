// Interleaved blocks of weights in registers: words of four bytes, one column per lane. Per target:
// include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_INTERLEAVED_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_INTERLEAVED_BLOCKS_INL_H_
#undef HEED_KERNELS_INTERLEAVED_BLOCKS_INL_H_
#else
#define HEED_KERNELS_INTERLEAVED_BLOCKS_INL_H_
#endif
// clang-format on

#include "kernels/interleave.h"
#include "kernels/simd-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

constexpr auto kLaneCount = static_cast<int64_t>(hn::MaxLanes(Words()));
constexpr int64_t kGroupVectors = kGroupColumns / kLaneCount;

/// Word `index` of the columns of vector v.
HWY_INLINE WordVec word_at(const uint8_t* words, int64_t index, int64_t v) {
  return hn::LoadU(Words(), reinterpret_cast<const int32_t*>(words + index * 64) + v * kLaneCount);
}
/// The halves at byte `offset`, as f32.
HWY_INLINE FloatVec halves_at(const uint8_t* side, int64_t offset, int64_t v) {
  return load(hn::ScalableTag<float>(),
              reinterpret_cast<const Half*>(side + offset) + v * kLaneCount);
}
template <int shift>
HWY_INLINE WordVec nibbles_of(WordVec word) {
  const auto mask = hn::Set(Words(), 0x0f0f0f0f);
  if constexpr (shift == 0) {
    return hn::And(word, mask);
  } else {
    return hn::And(hn::ShiftRight<shift>(word), mask);
  }
}

/// How a block of a group becomes words of unsigned bytes. A block consists of kRounds × kParts
/// parts with a small factor each (plain blocks: one part, no factor), of kPartWords words. The
/// bytes are kOffset too large. kFull: they use all 8 bits; otherwise they are at most 63.
/// value<part>(words, round, w, v) is word w of a part; place<part>(round, w) its index in a block.
template <class Block>
struct Words32;

/// What plain blocks share.
struct PlainBlock {
  static constexpr int64_t kRounds = 1;
  static constexpr int64_t kParts = 1;
  static constexpr int64_t kPartWords = 8;
  static constexpr bool kFactors = false;
  static constexpr bool kFull = false;
  static constexpr bool kMins = false;
  static constexpr int32_t kOffset = 0;
  static HWY_INLINE FloatVec scale(const uint8_t* side, int64_t v) { return halves_at(side, 0, v); }
};

template <>
struct Words32<BlockQ8> : PlainBlock {
  static constexpr bool kFull = true;
  static constexpr int32_t kOffset = 128;
  template <int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t v) {
    return word_at(words, w, v);
  }
};
template <>
struct Words32<BlockQ4> : PlainBlock {
  static constexpr int32_t kOffset = 8;
  template <int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t v) {
    return nibbles_of<w / 4 * 4>(word_at(words, w % 4, v));
  }
};
template <>
struct Words32<BlockIQ4NL> : PlainBlock {
  static constexpr bool kFull = true;
  static constexpr int32_t kOffset = 128;
  template <int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t v) {
    const Words d;
    const hn::Repartition<int8_t, Words> d8;
    const auto index = hn::BitCast(d8, nibbles_of<w / 4 * 4>(word_at(words, w % 4, v)));
    const auto signed_value = hn::TableLookupBytes(hn::LoadDup128(d8, kIQ4Values), index);
    return hn::Xor(hn::BitCast(d, signed_value), hn::Set(d, static_cast<int32_t>(0x80808080u)));
  }
};
/// Minima are added: d·q + m.
template <>
struct Words32<BlockQ4_1> : PlainBlock {
  static constexpr bool kMins = true;
  template <int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t v) {
    return nibbles_of<w / 4 * 4>(word_at(words, w % 4, v));
  }
  static HWY_INLINE FloatVec min(const uint8_t* side, int64_t v) { return halves_at(side, 32, v); }
};
struct FiveBits : PlainBlock {
  template <int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t v) {
    const Words d;
    const auto low = nibbles_of<w / 4 * 4>(word_at(words, 1 + w % 4, v));
    const auto high = word_at(words, 0, v);
    const auto moved = [&]() HWY_ATTR {
      if constexpr (w < 4) {
        return hn::ShiftLeft<4 - w>(high);
      } else {
        return hn::ShiftRight<w - 4>(high);
      }
    }();
    return hn::Or(low, hn::And(moved, hn::Set(d, 0x10101010)));
  }
};
template <>
struct Words32<BlockQ5_0> : FiveBits {
  static constexpr int32_t kOffset = 16;
};
template <>
struct Words32<BlockQ5_1> : FiveBits {
  static constexpr bool kMins = true;
  static HWY_INLINE FloatVec min(const uint8_t* side, int64_t v) { return halves_at(side, 32, v); }
};

/// Words of 16-bit pairs: the bytes 0 and 2, or 1 and 3.
HWY_INLINE WordVec even_bytes(WordVec word) { return hn::And(word, hn::Set(Words(), 0x00ff00ff)); }
HWY_INLINE WordVec odd_bytes(WordVec word) {
  return hn::And(hn::ShiftRight<8>(word), hn::Set(Words(), 0x00ff00ff));
}

/// Q4_K and Q5_K: 8 factors and 8 minima of 6 bits.
struct SixBitFactors {
  static constexpr int64_t kRounds = 4;
  static constexpr int64_t kParts = 2;
  static constexpr int64_t kPartWords = 8;
  static constexpr bool kFactors = true;
  static constexpr bool kFull = false;
  static constexpr bool kMins = true;
  static constexpr int32_t kOffset = 0;
  static constexpr int64_t kMinPairs = 4;

  static HWY_INLINE FloatVec scale(const uint8_t* side, int64_t v) {
    return halves_at(side, 192, v);
  }
  static HWY_INLINE FloatVec min(const uint8_t* side, int64_t v) {
    return hn::Neg(halves_at(side, 192 + 32, v));
  }
  /// Factors 4 … 7 from their four low bits and what the bytes of 0 … 3 hold above six bits.
  static HWY_INLINE WordVec upper(WordVec low, WordVec others) {
    return hn::Or(low, hn::And(hn::ShiftRight<2>(others), hn::Set(Words(), 0x30303030)));
  }
  /// Lane by lane: factors [8], then pairs of minima (0, 2), (1, 3), (4, 6), (5, 7).
  template <class Put, class PutMins>
  static HWY_INLINE void factors(const uint8_t* side, int64_t v, const Put& put,
                                 const PutMins& put_mins) {
    const Words d;
    const auto six = hn::Set(d, 0x3f3f3f3f);
    const auto first = word_at(side, 0, v);
    const auto second = word_at(side, 1, v);
    const auto third = word_at(side, 2, v);
    const WordVec scales[2] = {hn::And(first, six), upper(nibbles_of<0>(third), first)};
    const WordVec mins[2] = {hn::And(second, six), upper(nibbles_of<4>(third), second)};
    const auto byte = hn::Set(d, 255);
    for (int64_t i = 0; i < 2; ++i) {
      put(4 * i, hn::And(scales[i], byte));
      put(4 * i + 1, hn::And(hn::ShiftRight<8>(scales[i]), byte));
      put(4 * i + 2, hn::And(hn::ShiftRight<16>(scales[i]), byte));
      put(4 * i + 3, hn::ShiftRight<24>(scales[i]));
      put_mins(2 * i, even_bytes(mins[i]));
      put_mins(2 * i + 1, odd_bytes(mins[i]));
    }
  }
};
template <>
struct Words32<BlockQ4K> : SixBitFactors {
  template <int part, int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t round, int64_t v) {
    return nibbles_of<4 * part>(word_at(words, 8 * round + w, v));
  }
  template <int part>
  static constexpr int64_t place(int64_t round) {
    return 16 * round + 8 * part;
  }
};
template <>
struct Words32<BlockQ5K> : SixBitFactors {
  template <int part, int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t round, int64_t v) {
    const Words d;
    const auto low = nibbles_of<4 * part>(word_at(words, 8 + 8 * round + w, v));
    const auto high = hn::ShiftRightSame(word_at(words, w, v), static_cast<int>(2 * round + part));
    const auto bit = hn::And(high, hn::Set(d, 0x01010101));
    return hn::Or(low, hn::ShiftLeft<4>(bit));
  }
  template <int part>
  static constexpr int64_t place(int64_t round) {
    return 16 * round + 8 * part;
  }
};
/// 16 signed factors, each for 16 weights. Round 2h + i holds the half i of every 32 weights of
/// half h.
template <>
struct Words32<BlockQ6K> {
  static constexpr int64_t kRounds = 4;
  static constexpr int64_t kParts = 4;
  static constexpr int64_t kPartWords = 4;
  static constexpr bool kFactors = true;
  static constexpr bool kFull = false;
  static constexpr bool kMins = false;
  static constexpr int32_t kOffset = 32;
  static constexpr int64_t kMinPairs = 0;

  static HWY_INLINE FloatVec scale(const uint8_t* side, int64_t v) {
    return halves_at(side, 256, v);
  }
  template <class Put, class PutMins>
  static HWY_INLINE void factors(const uint8_t* side, int64_t v, const Put& put, const PutMins&) {
    for (int64_t i = 0; i < 4; ++i) {
      // Factor 8h + 2 part + i: index (2h + i) · 4 + part.
      const auto four = word_at(side, i, v);
      const int64_t at = i / 2 * 8 + i % 2 * 2;
      put(at, hn::ShiftRight<24>(hn::ShiftLeft<24>(four)));
      put(at + 4, hn::ShiftRight<24>(hn::ShiftLeft<16>(four)));
      put(at + 1, hn::ShiftRight<24>(hn::ShiftLeft<8>(four)));
      put(at + 5, hn::ShiftRight<24>(four));
    }
  }
  template <int part, int w>
  static HWY_INLINE WordVec value(const uint8_t* words, int64_t round, int64_t v) {
    const Words d;
    const auto low = nibbles_of<part / 2 * 4>(word_at(words, 12 * round + part % 2 * 4 + w, v));
    const auto high = word_at(words, 12 * round + 8 + w, v);
    const auto moved = [&]() HWY_ATTR {
      if constexpr (part == 0) {
        return hn::ShiftLeft<4>(high);
      } else if constexpr (part == 1) {
        return hn::ShiftLeft<2>(high);
      } else if constexpr (part == 2) {
        return high;
      } else {
        return hn::ShiftRight<2>(high);
      }
    }();
    return hn::Or(low, hn::And(moved, hn::Set(d, 0x30303030)));
  }
  template <int part>
  static constexpr int64_t place(int64_t round) {
    return round / 2 * 32 + 8 * part + round % 2 * 4;
  }
};

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_INTERLEAVED_BLOCKS_INL_H_
