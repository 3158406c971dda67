// Rows of memory to lanes: what lies along a row (k) of several rows comes out with one row per
// lane. Per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_TRANSPOSE_INL_H_
#undef HEED_KERNELS_TRANSPOSE_INL_H_
#else
#define HEED_KERNELS_TRANSPOSE_INL_H_
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

/// The four words of 16 bytes at `offset` of as many rows as a vector has lanes, one row per lane.
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

using FloatVec = hn::Vec<hn::ScalableTag<float>>;
/// Floats of a stream that are transposed at a time: a cache line where a vector holds one, for
/// lines of 16 streams may all want the same few sets of L1; else 16 bytes.
constexpr int64_t kPiece = kStreamVectors == 1 ? 16 : 4;

/// 16 × 16 lanes transposed: value[k] holds lane k of line(0) … line(15), vectors of 16 lanes.
template <class D, class Line>
HWY_INLINE void transpose_lines(D d, const Line& line, hn::Vec<D>* value) {
  const hn::Repartition<double, D> pairs;
  hn::Vec<D> four[16];  // [4i + j]: element j of each block of four, rows 4i … 4i + 3
  HWY_UNROLL(4)
  for (int i = 0; i < 16; i += 4) {
    const auto a = line(i);
    const auto b = line(i + 1);
    const auto e = line(i + 2);
    const auto f = line(i + 3);
    const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
    const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
    const auto ef_low = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
    const auto ef_high = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
    four[i] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ef_low));
    four[i + 1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ef_low));
    four[i + 2] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ef_high));
    four[i + 3] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ef_high));
  }
  HWY_UNROLL(4)
  for (int j = 0; j < 4; ++j) {  // blocks of four vectors, transposed: element 4b + j from block b
    const auto even_low = hn::ConcatLowerLower(d, four[8 + j], four[j]);
    const auto even_high = hn::ConcatUpperUpper(d, four[8 + j], four[j]);
    const auto odd_low = hn::ConcatLowerLower(d, four[12 + j], four[4 + j]);
    const auto odd_high = hn::ConcatUpperUpper(d, four[12 + j], four[4 + j]);
    value[j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_low), even_low);
    value[4 + j] = hn::OddEvenBlocks(odd_low, hn::SwapAdjacentBlocks(even_low));
    value[8 + j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_high), even_high);
    value[12 + j] = hn::OddEvenBlocks(odd_high, hn::SwapAdjacentBlocks(even_high));
  }
}

/// 16 floats at byte `offset` of 16 rows: value[k] holds element k of every row.
template <class D>
HWY_INLINE void load_lines(D d, const uint8_t* const* row, int64_t offset, hn::Vec<D>* value) {
  const auto line = [&](int r) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const float*>(row[r] + offset));
  };
  transpose_lines(d, line, value);
}

/// `piece` floats (4, or kPiece) at byte `offset` of kStreams rows: value[k][v] holds element k of
/// the rows of vector v.
template <int64_t piece, class D = hn::ScalableTag<float>>
HWY_INLINE void load_transposed(const uint8_t* const* row, int64_t offset,
                                FloatVec (*value)[kStreamVectors]) {
  const D d;
  if constexpr (piece == 16) {
    load_lines(d, row, offset, &value[0][0]);
  } else {
    HWY_UNROLL(4)
    for (int64_t v = 0; v < kStreamVectors; ++v) {
      WordVec words[4];
      load_words(row + v * static_cast<int64_t>(hn::MaxLanes(d)), offset, words);
      for (int k = 0; k < 4; ++k) {
        value[k][v] = hn::BitCast(d, words[k]);
      }
    }
  }
}

/// Calls fn(constant piece, k) for the pieces of [begin, end) of the streams, and rest(k) for what
/// is left. Lines are transposed as they lie in the cache: GGUF puts weights at multiples of 32
/// bytes, and loads that take two lines each cost a fifth of the time.
template <class Fn, class Rest>
HWY_INLINE void each_piece(const uint8_t* const* row, int64_t begin, int64_t end, const Fn& fn,
                           const Rest& rest) {
  constexpr std::integral_constant<int64_t, 4> kQuarter;
  constexpr std::integral_constant<int64_t, kPiece> kWhole;
  int64_t k = begin;
  if constexpr (kPiece > 4) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(row[0]) + static_cast<uintptr_t>(4 * k);
    if (first % 16 == 0 && (row[1] - row[0]) % 64 == 0) {
      const int64_t lead = static_cast<int64_t>(-first % 64) / 4;
      for (const int64_t line = k + lead; k < line && k + 4 <= end; k += 4) {
        fn(kQuarter, k);
      }
    }
  }
  for (; k + kPiece <= end; k += kPiece) {
    fn(kWhole, k);
  }
  for (; k + 4 <= end; k += 4) {
    fn(kQuarter, k);
  }
  for (; k < end; ++k) {
    rest(k);
  }
}

/// to [depth][kStreams] = `depth` floats of kStreams rows, from element k on.
inline void pack_transposed(const uint8_t* const* row, int64_t k, int64_t depth, float* to,
                            int64_t to_stride) {
  const hn::ScalableTag<float> d;
  const auto put = [&](auto piece, int64_t i) HWY_ATTR {
    constexpr int64_t kCount = decltype(piece)::value;
    FloatVec value[kCount][kStreamVectors];
    load_transposed<kCount>(row, i * 4, value);
    for (int64_t j = 0; j < kCount; ++j) {
      for (int64_t v = 0; v < kStreamVectors; ++v) {
        hn::StoreU(value[j][v], d,
                   to + (i - k + j) * to_stride + v * static_cast<int64_t>(hn::Lanes(d)));
      }
    }
  };
  each_piece(row, k, k + depth, put, [&](int64_t i) HWY_ATTR {
    for (int64_t j = 0; j < kStreams; ++j) {
      to[(i - k) * to_stride + j] = reinterpret_cast<const float*>(row[j])[i];
    }
  });
}

/// How the columns of a tile go over the streams: stream j holds columns j * steps … j * steps +
/// steps - 1, which are adjacent in memory, and in each step every stream gives one.
/// Results of a step lie side by side, in order of the streams.
struct Streams {
  int64_t width;
  int64_t steps;

  explicit Streams(int64_t columns) : width(columns), steps((columns + kStreams - 1) / kStreams) {}
  int64_t places() const { return steps * kStreams; }
  /// Calls fn(column, index) for every column of the tile.
  template <class Fn>
  void each(Fn&& fn) const {
    for (int64_t j = 0, column = 0; column < width; ++j) {
      for (int64_t step = 0; step < steps && column < width; ++step, ++column) {
        fn(column, step * kStreams + j);
      }
    }
  }
  /// First bytes of the rows of one step; past the end the last row again.
  void rows(const uint8_t* first, int64_t stride, int64_t step, const uint8_t** row) const {
    for (int64_t j = 0; j < kStreams; ++j) {
      row[j] = first + HWY_MIN(j * steps + step, width - 1) * stride;
    }
  }
};

constexpr int64_t kLargestTile = 16 * kStreams;

/// Fetches into L2 what a stream comes to later.
HWY_INLINE void fetch_later(const void* p) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(p, 0, 2);
#else
  (void)p;
#endif
}

/// Columns in a tile: enough tiles for threads to share them evenly, long streams. By n alone.
inline int64_t streamed_tile(int64_t n) {
  constexpr int64_t kTiles = 24;
  const int64_t steps = (n + kStreams * kTiles - 1) / (kStreams * kTiles);
  return HWY_MIN(kStreams * steps, kLargestTile);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_TRANSPOSE_INL_H_
