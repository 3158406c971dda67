// Rows of memory to lanes: what lies along a row (k) of several rows comes out a row a lane. Per
// target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_TURN_INL_H_
#undef HEED_KERNELS_TURN_INL_H_
#else
#define HEED_KERNELS_TURN_INL_H_
#endif
// clang-format on

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

using Words = hn::ScalableTag<int32_t>;
using WordVec = hn::Vec<Words>;

/// 16 bytes at `offset` of each of the rows 0, 4, 8 … from `row`.
template <class D>
HWY_INLINE hn::Vec<D> load_rows(D d, const uint8_t* const* row, int64_t offset) {
  if constexpr (hn::MaxLanes(d) <= 16) {
    return hn::LoadU(d, row[0] + offset);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_rows(half, row + hn::MaxLanes(half) / 4, offset),
                       load_rows(half, row, offset));
  }
}

/// The four words of 16 bytes at `offset` of as many rows as a vector has lanes, a row a lane.
HWY_INLINE void load_words(const uint8_t* const* row, int64_t offset, WordVec* words) {
  const hn::Repartition<uint8_t, Words> d8;
  const Words d;
  const hn::Repartition<int64_t, Words> pairs;
  const auto a = hn::BitCast(d, load_rows(d8, row, offset));
  const auto b = hn::BitCast(d, load_rows(d8, row + 1, offset));
  const auto e = hn::BitCast(d, load_rows(d8, row + 2, offset));
  const auto f = hn::BitCast(d, load_rows(d8, row + 3, offset));
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ef_low = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
  const auto ef_high = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
  words[0] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ef_low));
  words[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ef_low));
  words[2] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ef_high));
  words[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ef_high));
}

/// Rows of memory that are read side by side: as many as the machine's prefetchers follow at once.
constexpr int64_t kStreams = 16;
constexpr int64_t kStreamVectors = kStreams / static_cast<int64_t>(hn::MaxLanes(Words()));

/// Elements of T in 16 bytes.
template <class T>
constexpr int64_t kPiece = 16 / static_cast<int64_t>(sizeof(T));

using FloatVec = hn::Vec<hn::ScalableTag<float>>;

/// kPiece elements at byte `offset` of kStreams rows as f32: value[k][v] holds element k of the
/// rows of vector v.
HWY_INLINE void load_turned(const float*, const uint8_t* const* row, int64_t offset,
                            FloatVec (*value)[kStreamVectors]) {
  const hn::ScalableTag<float> d;
  HWY_UNROLL(4)
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    WordVec words[4];
    load_words(row + v * static_cast<int64_t>(hn::MaxLanes(d)), offset, words);
    for (int k = 0; k < 4; ++k) {
      value[k][v] = hn::BitCast(d, words[k]);
    }
  }
}
HWY_INLINE void load_turned(const BFloat16*, const uint8_t* const* row, int64_t offset,
                            FloatVec (*value)[kStreamVectors]) {
  const hn::ScalableTag<float> d;
  const Words d32;
  HWY_UNROLL(4)
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    WordVec words[4];
    load_words(row + v * static_cast<int64_t>(hn::MaxLanes(d)), offset, words);
    for (int k = 0; k < 4; ++k) {
      value[2 * k][v] = hn::BitCast(d, hn::ShiftLeft<16>(words[k]));
      value[2 * k + 1][v] =
          hn::BitCast(d, hn::And(words[k], hn::Set(d32, static_cast<int32_t>(0xffff0000u))));
    }
  }
}
/// A whole vector of f16 to two of f32.
template <class D, class V16>
HWY_INLINE void widen_halves(D d, V16 v, hn::Vec<D>& first, hn::Vec<D>& second) {
  const hn::Repartition<uint16_t, D> d16;
#if HWY_TARGET <= HWY_AVX2
  const hn::Half<decltype(d16)> half;
  const hn::Rebind<hwy::float16_t, D> d_half;
  first = hn::PromoteTo(d, hn::BitCast(d_half, hn::LowerHalf(half, v)));
  second = hn::PromoteTo(d, hn::BitCast(d_half, hn::UpperHalf(half, v)));
#else
  HWY_ALIGN Half buffer[hn::MaxLanes(d16)];
  hn::Store(v, d16, &buffer[0].bits);
  first = load(d, buffer);
  second = load(d, buffer + hn::MaxLanes(d));
#endif
}
HWY_INLINE void load_turned(const Half*, const uint8_t* const* row, int64_t offset,
                            FloatVec (*value)[kStreamVectors]) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<uint16_t, Words> d16;
  HWY_UNROLL(4)
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    WordVec words[4];
    load_words(row + v * static_cast<int64_t>(hn::MaxLanes(d)), offset, words);
    for (int k = 0; k < 4; k += 2) {
      const auto a = hn::BitCast(d16, words[k]);
      const auto b = hn::BitCast(d16, words[k + 1]);
      widen_halves(d, hn::ConcatEven(d16, b, a), value[2 * k][v], value[2 * k + 2][v]);
      widen_halves(d, hn::ConcatOdd(d16, b, a), value[2 * k + 1][v], value[2 * k + 3][v]);
    }
  }
}

/// How the columns of a tile go over the streams: stream j holds columns j * turns … j * turns +
/// turns - 1, which lie one after the other in memory, and in each turn every stream gives one.
/// Results of a turn lie side by side, in order of the streams.
struct Streams {
  int64_t width;
  int64_t turns;

  explicit Streams(int64_t columns) : width(columns), turns((columns + kStreams - 1) / kStreams) {}
  int64_t places() const { return turns * kStreams; }
  /// Calls fn(column, place) for every column of the tile.
  template <class Fn>
  void each(Fn&& fn) const {
    for (int64_t j = 0, column = 0; column < width; ++j) {
      for (int64_t turn = 0; turn < turns && column < width; ++turn, ++column) {
        fn(column, turn * kStreams + j);
      }
    }
  }
  /// First bytes of the rows of one turn; past the end the last row again.
  void rows(const uint8_t* first, int64_t stride, int64_t turn, const uint8_t** row) const {
    for (int64_t j = 0; j < kStreams; ++j) {
      row[j] = first + HWY_MIN(j * turns + turn, width - 1) * stride;
    }
  }
};

constexpr int64_t kLargestTile = 16 * kStreams;

/// Fetches into L2 what a stream comes to later.
HWY_INLINE void fetch_later(const uint8_t* p) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(p, 0, 2);
#else
  (void)p;
#endif
}

/// Columns in a tile: enough tiles for threads to share them evenly, long streams. By n alone.
inline int64_t streamed_tile(int64_t n) {
  constexpr int64_t kTiles = 24;
  const int64_t turns = (n + kStreams * kTiles - 1) / (kStreams * kTiles);
  return HWY_MIN(kStreams * turns, kLargestTile);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_TURN_INL_H_
