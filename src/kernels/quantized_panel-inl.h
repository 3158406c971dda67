// Operands of the quantised product as its micro-kernel reads them: 32-bit words of whole numbers,
// an output a lane. Per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_QUANTIZED_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_QUANTIZED_PANEL_INL_H_
#undef HEED_KERNELS_QUANTIZED_PANEL_INL_H_
#else
#define HEED_KERNELS_QUANTIZED_PANEL_INL_H_
#endif
// clang-format on

#include <hwy/cache_control.h>

#include <limits>

#include "kernels/pack-inl.h"
#include "kernels/quantize.h"
#include "kernels/simd-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
/// Words of four bytes for AVX-512's dot product, which multiplies unsigned bytes by signed ones:
/// weights are moved up by 128 (q8_0) or 8 (q4_0), and sums start from what that adds.
struct Bytes {
  static constexpr int64_t kWords = kBlock / 4;
  static constexpr int32_t offset(const BlockQ8*) { return 128; }
  static constexpr int32_t offset(const BlockQ4*) { return 8; }

  /// Without saturation between. Highway 1.0.3 has no name for it, and its AVX-512 targets do not
  /// switch the intrinsic on.
  template <class V>
  static HWY_INLINE V add_products(V sum, V weights, V x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(x.raw));
    return sum;
  }
  /// One piece of a block, signed or not, times the same piece of x.
  template <class D, class V>
  static HWY_INLINE V add_piece(D d, V sum, V weights, const int32_t* x, int64_t piece) {
    return add_products(sum, weights, hn::LoadU(d, x + piece * static_cast<int64_t>(hn::Lanes(d))));
  }
  /// The same where x lies in groups of blocks; `half` is where the second half begins.
  template <class D, class V>
  static HWY_INLINE V add_quarter(D d, V sum, V weights, const int32_t* x, int64_t half) {
    return add_products(sum, weights, hn::LoadU(d, x + half));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> from_signed(D d, hn::Vec<D> weights) {
    return hn::Xor(weights, hn::Set(d, static_cast<int32_t>(0x80808080u)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> from_nibbles(D, hn::Vec<D> weights) {
    return weights;
  }
  static HWY_INLINE void put(WordVec weights, int32_t* words, int64_t) {
    hn::Store(weights, Words(), words);
  }
  static void put_x(const int32_t* values, int32_t* words) {
    const hn::FixedTag<int32_t, 16> d;
    const hn::Rebind<int8_t, decltype(d)> d8;
    auto* bytes = reinterpret_cast<int8_t*>(words);
    hn::StoreU(hn::DemoteTo(d8, hn::LoadU(d, values)), d8, bytes);
    hn::StoreU(hn::DemoteTo(d8, hn::LoadU(d, values + 16)), d8, bytes + 16);
  }
};
#endif

/// Words of two 16-bit numbers: word w holds the weights 4w and 4w + 2, word 8 + w those after
/// them. Products of full-range weights are exact, which AVX2's byte instruction does not give.
struct Pairs {
  static constexpr int64_t kWords = kBlock / 2;
  static constexpr int32_t offset(const void*) { return 0; }

  template <class V>
  static HWY_INLINE V add_products(V sum, V weights, V x) {
#if HWY_ARCH_X86
    const hn::DFromV<V> d;
    const hn::Repartition<int16_t, decltype(d)> d16;
    auto unused = hn::Zero(d);
    return hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, weights), hn::BitCast(d16, x), sum,
                                         unused);
#else
    const auto low = [](V v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
    sum = hn::Add(sum, hn::Mul(low(weights), low(x)));
    return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(weights), hn::ShiftRight<16>(x)));
#endif
  }
  /// Words of four signed bytes to the two words that hold them here.
  template <class D>
  static HWY_INLINE hn::Vec<D> first_word(D d, hn::Vec<D> weights) {
    const hn::Repartition<int16_t, D> d16;
    return hn::BitCast(d, hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, weights))));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> second_word(D d, hn::Vec<D> weights) {
    const hn::Repartition<int16_t, D> d16;
    return hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(d16, weights)));
  }
  template <class D, class V>
  static HWY_INLINE V add_piece(D d, V sum, V weights, const int32_t* x, int64_t piece) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    sum = add_products(sum, first_word(d, weights), hn::LoadU(d, x + piece * lanes));
    return add_products(sum, second_word(d, weights), hn::LoadU(d, x + kWords / 2 + piece * lanes));
  }
  template <class D, class V>
  static HWY_INLINE V add_quarter(D d, V sum, V weights, const int32_t* x, int64_t half) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    sum = add_products(sum, first_word(d, weights), hn::LoadU(d, x + half));
    return add_products(sum, second_word(d, weights), hn::LoadU(d, x + half + 8 * lanes));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> from_signed(D, hn::Vec<D> weights) {
    return weights;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> from_nibbles(D d, hn::Vec<D> weights) {
    const hn::Repartition<int8_t, D> d8;
    return hn::BitCast(d, hn::Sub(hn::BitCast(d8, weights), hn::Set(d8, int8_t{8})));
  }
  static HWY_INLINE void put(WordVec weights, int32_t* words, int64_t width) {
    const Words d;
    hn::Store(first_word(d, weights), d, words);
    hn::Store(second_word(d, weights), d, words + kWords / 2 * width);
  }
  static void put_x(const int32_t* values, int32_t* words) {
    const hn::FixedTag<int32_t, 4> d;
    for (int64_t i = 0; i < kBlock / 4; ++i) {
      const auto v = hn::LoadU(d, values + 4 * i);
      const auto both =
          hn::Or(hn::And(v, hn::Set(d, 0xffff)), hn::ShiftLeft<16>(hn::Shuffle1032(v)));
      HWY_ALIGN int32_t two[4];
      hn::Store(both, d, two);
      words[i] = two[0];
      words[kWords / 2 + i] = two[1];
    }
  }
};

/// Rows of activations in words; scales and first sums [rows, blocks].
struct QuantizedRows {
  int32_t* words;  // [rows, blocks, kWords]
  float* scales;
  int32_t* starts;
  int64_t blocks;
};

/// One block of 32 activations. Values are -127 … 127. A block that is not finite gets NaN for its
/// scale; one whose scale's inverse overflows counts as zeros.
template <class Format>
HWY_INLINE void quantize_x(const float* x, int32_t offset, int32_t* words, float* scale,
                           int32_t* start) {
  const hn::ScalableTag<float> d;
  const Words di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d);
  auto finite = hn::Eq(largest, largest);
  for (int64_t i = 0; i < kBlock; i += lanes) {
    const auto size = hn::Abs(hn::LoadU(d, x + i));
    finite = hn::And(finite, hn::Le(size, hn::Set(d, std::numeric_limits<float>::max())));
    largest = hn::Max(largest, size);
  }
  const bool usable = hn::AllTrue(d, finite);
  const float most = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float inverse = usable && most > 0 ? 127.0f / most : 0.0f;
  const bool zero = !(inverse <= std::numeric_limits<float>::max()) || inverse == 0.0f;
  const auto factor = hn::Set(d, zero ? 0.0f : inverse);
  HWY_ALIGN int32_t values[kBlock];
  auto sum = hn::Zero(di);
  for (int64_t i = 0; i < kBlock; i += lanes) {
    const auto v = usable ? hn::LoadU(d, x + i) : hn::Zero(d);
    const auto whole = hn::NearestInt(hn::Mul(v, factor));
    sum = hn::Add(sum, whole);
    hn::Store(whole, di, values + i);
  }
  Format::put_x(values, words);
  *start = -offset * hn::GetLane(hn::SumOfLanes(di, sum));
  *scale = !usable ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : most / 127.0f;
}

/// One block of a vector of rows to words [kWords, width]: four weights of each row at a time.
template <class Format>
HWY_INLINE void pack_block(const BlockQ8*, const uint8_t* const* row, int64_t offset,
                           int32_t* words, int64_t width) {
  const Words d;
  WordVec w[4];
  for (int64_t half = 0; half < 2; ++half) {
    load_words(row, offset + 2 + 16 * half, w);
    for (int64_t i = 0; i < 4; ++i) {
      Format::put(Format::from_signed(d, w[i]), words + (4 * half + i) * width, width);
    }
  }
}
template <class Format>
HWY_INLINE void pack_block(const BlockQ4*, const uint8_t* const* row, int64_t offset,
                           int32_t* words, int64_t width) {
  const Words d;
  const auto low = hn::Set(d, 0x0f0f0f0f);
  WordVec w[4];
  load_words(row, offset + 2, w);
  for (int64_t i = 0; i < 4; ++i) {
    const auto high = hn::And(hn::ShiftRight<4>(w[i]), low);
    Format::put(Format::from_nibbles(d, hn::And(w[i], low)), words + i * width, width);
    Format::put(Format::from_nibbles(d, high), words + (4 + i) * width, width);
  }
}

/// `blocks` blocks from `block` on of `vectors` vectors of rows, as words [block, kWords, width]
/// and scales [block, width].
template <class Format, int vectors, class Block>
void pack_panel(const Block* type, const uint8_t* const* row, int64_t block, int64_t blocks,
                int32_t* words, float* scales) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(Words()));
  constexpr int64_t kWidth = vectors * kLanes;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Block));
  constexpr int64_t kAhead = 16;  // blocks: what the next call reads
  // The scales, first as they are, in the second half of their room.
  auto* halves = reinterpret_cast<Half*>(scales + blocks * kWidth) - blocks * kWidth;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t offset = (block + b) * kBytes;
    for (int64_t i = 0; i < kWidth; ++i) {
      fetch_later(row[i] + offset + kAhead * kBytes);
      halves[b * kWidth + i] = reinterpret_cast<const Block*>(row[i] + offset)->scale;
    }
    for (int64_t v = 0; v < vectors; ++v) {
      pack_block<Format>(type, row + v * kLanes, offset,
                         words + b * Format::kWords * kWidth + v * kLanes, kWidth);
    }
  }
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < blocks * kWidth; i += kLanes) {
    hn::Store(load(d, halves + i), d, scales + i);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_QUANTIZED_PANEL_INL_H_
