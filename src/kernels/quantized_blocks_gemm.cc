#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/quantized_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantized_blocks_gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_epilogue-inl.h"
#include "kernels/quantized_blocks_panel-inl.h"

// How it works. Every block type is, per block of 32 or 256 weights, a scale in f32 times whole
// numbers of 16 bits (the small scales inside a superblock multiplied in), and where it has minima,
// a second scale times whole numbers per 16 weights. Rows of A are rounded to 8 bits in blocks of
// the same length. A block's sum is exact in 32 bits; over the blocks an element is one chain of
// fused multiply-adds. With very few rows weights are multiplied as bytes as they lie
// (kernels/quantized_columns-inl.h); with more, tiles of B become panels of 16-bit pairs, an output
// per lane.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3
constexpr int kBlockRows = 12;  // 24 sums of 32 registers
#else
constexpr int kBlockRows = 6;  // 12 sums of 16
#endif
constexpr int64_t kPartWeights = 512;  // along k at a time: a panel's part stays in L1
constexpr int64_t kBlockTileRows = 240;
constexpr int64_t kBlockTileColumns = 128;

/// Adds the products of pairs of 16-bit numbers.
struct PlainPairs {
  static HWY_INLINE WordVec add(WordVec sum, WordVec weights, WordVec x) {
    return Pairs::add_products(sum, weights, x);
  }
};
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
/// With AVX-512 VNNI. Highway 1.0.3 has no name for the instruction.
struct DotPairs {
  static HWY_INLINE WordVec add(WordVec sum, WordVec weights, WordVec x) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(x.raw));
    return sum;
  }
};
#endif

/// C[rows, kBlockPanel] (+)= rows of x from `row` on times a panel's part.
template <class P, class Format, int rows>
HWY_NOINLINE void multiply_panel(const RoundedRows& x, int64_t row, int64_t block, int64_t blocks,
                                 const int32_t* HWY_RESTRICT words, float* c, int64_t c_stride) {
  constexpr int64_t kWeights = P::kWeights;
  const hn::ScalableTag<float> d;
  const Words di;
  const auto add_words = [&](int64_t count, const int16_t* from, int64_t stride,
                             WordVec(*sum)[kBlockVectors]) HWY_ATTR {
    HWY_UNROLL(12)
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < kBlockVectors; ++v) {
        sum[r][v] = hn::Zero(di);
      }
    }
    for (int64_t w = 0; w < count; ++w, words += kBlockPanel) {
      const auto w0 = hn::Load(di, words);
      const auto w1 = hn::Load(di, words + kWordLanes);
      HWY_UNROLL(12)
      for (int r = 0; r < rows; ++r) {
        int32_t two;
        std::memcpy(&two, from + r * stride + 2 * w, sizeof two);
        const auto value = hn::Set(di, two);
        sum[r][0] = Format::add(sum[r][0], w0, value);
        sum[r][1] = Format::add(sum[r][1], w1, value);
      }
    }
  };
  const auto add_chain = [&](const WordVec(*sum)[kBlockVectors], const float* scales, int64_t b,
                             bool first) HWY_ATTR {
    for (int r = 0; r < rows; ++r) {
      const auto x_scale = hn::Set(d, x.scales[(row + r) * x.blocks + block + b]);
      for (int v = 0; v < kBlockVectors; ++v) {
        float* to = c + r * c_stride + v * kWordLanes;
        const auto before = first ? hn::Zero(d) : hn::LoadU(d, to);
        const auto both = hn::Mul(hn::Load(d, scales + v * kWordLanes), x_scale);
        hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sum[r][v]), both, before), d, to);
      }
    }
  };
  for (int64_t b = 0; b < blocks; ++b) {
    WordVec sum[rows][kBlockVectors];
    const auto* scales =
        reinterpret_cast<const float*>(words + (P::kPairs + P::kMinPairs) * kBlockPanel);
    add_words(P::kPairs, x.shorts + row * x.k + (block + b) * kWeights, x.k, sum);
    add_chain(sum, scales, b, block + b == 0);
    if constexpr (P::kMins) {
      add_words(P::kMinPairs, x.sums + (row * x.k + (block + b) * kWeights) / 16, x.k / 16, sum);
      add_chain(sum, scales + kBlockPanel, b, false);
    }
    words += (P::kWords - P::kPairs - P::kMinPairs) * kBlockPanel;
  }
}

template <class P, class Format, int rows = kBlockRows, class... Rest>
HWY_INLINE void run_panel(int64_t wanted, Rest&&... rest) {
  if constexpr (rows > 1) {
    if (wanted < rows) {
      run_panel<P, Format, rows - 1>(wanted, rest...);
      return;
    }
  }
  multiply_panel<P, Format, rows>(rest...);
}

template <class Block, class Format>
class BlockProduct {
 public:
  explicit BlockProduct(const Job<float>& job)
      : job_(job),
        blocks_(job.k / kWeights),
        few_(job.m <= kColumnsFewRows),
        bytes_(few_ ? job.m * job.k : 1),
        shorts_(few_ ? 1 : job.m * job.k),
        scales_(job.m * blocks_ + 1),
        sums_(job.m * job.k / 16 + 1),
        x_{few_ ? bytes_.data() : nullptr,
           shorts_.data(),
           scales_.data(),
           sums_.data(),
           blocks_,
           job.k} {}

  void run() {
    constexpr int64_t kAtOnce = 4;
    if (job_.m <= kAtOnce) {
      for (int64_t row = 0; row < job_.m; ++row) {
        round_row(row);
      }
    } else {
      parallel_ranges(job_.m, kAtOnce, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          round_row(row);
        }
      });
    }
    if (few_) {
      few_rows();
    } else {
      many_rows();
    }
  }

 private:
  static constexpr int64_t kWeights = kBlockWeights<Block>;
  static constexpr int64_t kPartBlocks = kPartWeights / kWeights;

  const Block* column(int64_t index) const {
    return static_cast<const Block*>(job_.b.data) + index * (job_.b.column_stride / kWeights);
  }

  void round_row(int64_t row) {
    const bool dense = job_.a.type == Element::f32 && job_.a.column_stride == 1;
    const float* direct = static_cast<const float*>(job_.a.data) + row * job_.a.row_stride;
    HWY_ALIGN float buffer[kWeights];
    for (int64_t block = 0; block < blocks_; ++block) {
      const float* x = direct + block * kWeights;
      if (!dense) {
        pack(job_.a, row, block * kWeights, 1, kWeights, buffer, kWeights);
        x = buffer;
      }
      round_block<kWeights>(x, x_, row, block);
    }
  }

  /// Columns as they lie, a group at a time.
  void few_rows() {
    const int64_t tile = streamed_tile(job_.n);
    parallel_for((job_.n + tile - 1) / tile, [&](int64_t index) {
      const int64_t begin = index * tile;
      const int64_t width = std::min(tile, job_.n - begin);
      HWY_ALIGN float buffer[kColumnsFewRows * kLargestTile];
      Scratch<GroupSums<Block>> sums(1);
      for (int64_t j = 0; j < width; j += kColumnGroup) {
        multiply_group({.first = column(begin + j),
                        .stride = job_.b.column_stride / kWeights,
                        .count = std::min(kColumnGroup, width - j)},
                       x_, job_.m, *sums.data(), buffer + j, kLargestTile);
      }
      float* to = sums_of(job_, 0, begin, buffer);
      for (int64_t r = 0; r < job_.m && job_.direct(); ++r) {
        std::copy_n(buffer + r * kLargestTile, width, to + r * job_.c_stride);
      }
      finish(job_, 0, begin, job_.m, width, to, job_.direct() ? job_.c_stride : kLargestTile);
    });
  }

  /// Tiles that unpack their own columns: with 240 rows that is a few percent of the work.
  void many_rows() {
    const int64_t row_tiles = (job_.m + kBlockTileRows - 1) / kBlockTileRows;
    const int64_t even = (job_.m + row_tiles - 1) / row_tiles;
    const int64_t height = (even + kBlockRows - 1) / kBlockRows * kBlockRows;
    const int64_t wide = std::min(kBlockTileColumns, streamed_tile(job_.n));
    const int64_t tile = (wide + kBlockPanel - 1) / kBlockPanel * kBlockPanel;
    parallel_for(row_tiles * ((job_.n + tile - 1) / tile), [&](int64_t index) {
      const int64_t row = index % row_tiles * height;
      const int64_t begin = index / row_tiles * tile;
      if (row < job_.m) {
        multiply_tile(row, std::min(height, job_.m - row), begin, std::min(tile, job_.n - begin));
      }
    });
  }

  void multiply_tile(int64_t row, int64_t rows, int64_t begin, int64_t width) {
    constexpr int64_t kPartWords = kPartBlocks * PanelOf<Block>::kWords * kBlockPanel;
    const int64_t panels = (width + kBlockPanel - 1) / kBlockPanel;
    const int64_t stride = panels * kBlockPanel;
    Scratch<float> sums(rows * stride);
    Scratch<int32_t> words(panels * kPartWords);
    for (int64_t block = 0; block < blocks_; block += kPartBlocks) {
      const int64_t blocks = std::min(kPartBlocks, blocks_ - block);
      for (int64_t panel = 0; panel < panels; ++panel) {
        const Block* columns[kBlockPanel];
        for (int64_t i = 0; i < kBlockPanel; ++i) {  // past the end the last column again
          columns[i] = column(begin + std::min(panel * kBlockPanel + i, width - 1)) + block;
        }
        pack_blocks(columns, blocks, words.data() + panel * kPartWords);
      }
      for (int64_t panel = 0; panel < panels; ++panel) {
        for (int64_t r = 0; r < rows; r += kBlockRows) {
          run_panel<PanelOf<Block>, Format>(std::min<int64_t>(kBlockRows, rows - r), x_, row + r,
                                            block, blocks, words.data() + panel * kPartWords,
                                            sums.data() + r * stride + panel * kBlockPanel, stride);
        }
      }
    }
    if (blocks_ == 0) {
      std::fill_n(sums.data(), rows * stride, 0.0f);
    }
    for (int64_t r = 0; r < rows && job_.direct(); ++r) {
      std::copy_n(sums.data() + r * stride, width,
                  static_cast<float*>(job_.c) + (row + r) * job_.c_stride + begin);
    }
    if (job_.direct()) {
      finish(job_, row, begin, rows, width, sums_of(job_, row, begin, sums.data()), job_.c_stride);
    } else {
      finish(job_, row, begin, rows, width, sums.data(), stride);
    }
  }

  const Job<float>& job_;
  const int64_t blocks_;
  const bool few_;
  Scratch<int8_t> bytes_;
  Scratch<int16_t> shorts_;
  Scratch<float> scales_;
  Scratch<int16_t> sums_;
  RoundedRows x_;
};

template <class Format>
void run_blocks(const Job<float>& job) {
  with_block_of(job.b.type, [&]<class Block>(const Block*) {
    if constexpr (!std::is_same_v<Block, BlockQ8> && !std::is_same_v<Block, BlockQ4>) {
      BlockProduct<Block, Format>(job).run();
    }
  });
}

void quantized_blocks_gemm_target(const GemmProblem& problem,
                                  [[maybe_unused]] bool dot_instructions) {
  const Job<float> job(problem);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if (dot_instructions) {
    run_blocks<DotPairs>(job);
    return;
  }
#endif
  run_blocks<PlainPairs>(job);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(quantized_blocks_gemm_target);

void quantized_blocks_gemm(const GemmProblem& problem) {
  HWY_DYNAMIC_DISPATCH(quantized_blocks_gemm_target)(problem, uses_dot_instructions());
}

}  // namespace heed::kernels
#endif
