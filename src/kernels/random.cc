#include "kernels/random.h"

#include <algorithm>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/random.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/random-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class Word>
void philox_range(Word* words, RandomKey key, uint64_t first, size_t blocks) {
  philox_blocks(words, key, first, blocks);
}

/// `first` is the index of x[0] in the whole array, a multiple of 4.
template <class T>
void dropout_range(T* y, const T* x, RandomKey key, uint64_t first, uint32_t threshold,
                   double scale, size_t count) {
  constexpr size_t kWords = 512;
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, static_cast<Compute<T>>(scale));
  HWY_ALIGN uint32_t words[kWords];
  for (size_t begin = 0; begin < count; begin += kWords) {
    const size_t n = HWY_MIN(kWords, count - begin);
    philox_blocks(words, key, (first + begin) / 4, (n + 3) / 4);
    for (size_t i = 0; i < n; i += lanes) {
      const size_t rest = HWY_MIN(lanes, n - i);
      const auto value = hn::Mul(load_upto(d, x + begin + i, rest), factor);
      store_upto(hn::IfThenElseZero(kept(d, words + i, threshold), value), d, y + begin + i, rest);
    }
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(philox_range)
HEED_EXPORT(dropout_range)

void philox_words(uint32_t* words, RandomKey key, uint64_t first_block, int64_t blocks) {
  HEED_CALL(philox_range, uint32_t)(words, key, first_block, static_cast<size_t>(blocks));
}

template <class T>
void dropout(T* y, const T* x, RandomKey key, double p, std::span<const SampleRange> ranges) {
  constexpr int64_t kTile = 16384;  // elements, a multiple of a Philox block
  constexpr int kSampleShift = 34;  // an example has room for 2^34 elements
  struct Tile {
    int64_t begin, end;
    uint64_t first;
  };
  std::vector<Tile> tiles;
  for (const SampleRange& range : ranges) {
    for (int64_t begin = range.begin; begin < range.end; begin += kTile) {
      tiles.push_back(
          {begin, std::min(begin + kTile, range.end),
           (range.sample << kSampleShift) + static_cast<uint64_t>(begin - range.begin)});
    }
  }
  parallel_for(static_cast<int64_t>(tiles.size()), [&](int64_t index) {
    const Tile& tile = tiles[static_cast<size_t>(index)];
    HEED_CALL(dropout_range, T)
    (y + tile.begin, x + tile.begin, key, tile.first, drop_threshold(p), 1.0 / (1.0 - p),
     static_cast<size_t>(tile.end - tile.begin));
  });
}

template <class T>
void dropout(T* y, const T* x, RandomKey key, double p, int64_t count) {
  const SampleRange whole{0, count, 0};
  dropout(y, x, key, p, std::span(&whole, 1));
}

#define HEED_INSTANTIATE(T)                                        \
  template void dropout(T*, const T*, RandomKey, double, int64_t); \
  template void dropout(T*, const T*, RandomKey, double, std::span<const SampleRange>);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
