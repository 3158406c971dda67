#include "kernels/quantized_gemm.h"

#include <algorithm>
#include <atomic>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/interleave.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantized_gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_epilogue-inl.h"
#include "kernels/quantized_rows-inl.h"

// How it works. The rows of A are rounded to 8-bit numbers once. Columns of B come from their
// blocks into panels of words (kernels/quantized_panel-inl.h), with few rows (decoding) a piece at
// a time into L1, with many rows a large part of B at once. The micro-kernel adds up a block's
// products in whole numbers and then the blocks in f32, one after the other. Nothing of B is kept
// from one product to the next: what is read is the file's own blocks.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3
constexpr int kQuantizedRows = 6;  // 12 sums in f32, 12 in whole numbers, of 32 registers
#else
constexpr int kQuantizedRows = 3;  // 6 and 6 of 16
#endif
constexpr int kPanelVectors = 2;  // of outputs, with many rows
constexpr int64_t kPanelWidth = kPanelVectors * static_cast<int64_t>(hn::MaxLanes(Words()));
constexpr int64_t kPart = 16;              // blocks along k at a time: a panel's part stays in L1
constexpr int64_t kQuantizedFewRows = 32;  // up to here B is unpacked tile by tile
constexpr int64_t kQuantizedTileRows = 144;
constexpr int64_t kQuantizedTileColumns = 128;
constexpr int64_t kUnpackedWeights = int64_t{8} << 20;  // of B in panels at a time

/// A part of a panel of B: `blocks` blocks along k from `block` on.
struct PanelPart {
  int64_t block;
  int64_t blocks;
  const int32_t* words;
  const float* scales;
  bool first;  ///< sums start at zero, not at C
};

/// C[rows, vectors] (+)= rows of A from `row` on · a part of a panel.
template <class Format, int rows, int vectors>
HWY_NOINLINE void multiply_blocks(const QuantizedRows& x, int64_t row, const PanelPart& part,
                                  float* c, int64_t c_stride) {
  const int64_t block = part.block;
  const int64_t blocks = part.blocks;
  const int32_t* HWY_RESTRICT words = part.words;
  const float* HWY_RESTRICT scales = part.scales;
  const bool first = part.first;
  const hn::ScalableTag<float> d;
  const Words di;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(di));
  const int32_t* HWY_RESTRICT x_words = x.words + (row * x.blocks + block) * Format::kWords;
  const float* HWY_RESTRICT x_scales = x.scales + row * x.blocks + block;
  const int32_t* HWY_RESTRICT x_starts = x.starts + row * x.blocks + block;
  hn::Vec<decltype(d)> sum[rows][vectors];
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sum[r][v] = first ? hn::Zero(d) : hn::LoadU(d, c + r * c_stride + v * kLanes);
    }
  }
  for (int64_t b = 0; b < blocks; ++b) {
    WordVec whole[rows][vectors];
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        whole[r][v] = hn::Set(di, x_starts[r * x.blocks + b]);
      }
    }
    const int32_t* block_x = x_words + b * Format::kWords;
    HWY_UNROLL(2)
    for (int64_t w = 0; w < Format::kWords; ++w) {
      WordVec weights[vectors];
      for (int v = 0; v < vectors; ++v) {
        weights[v] = hn::Load(di, words + v * kLanes);
      }
      words += vectors * kLanes;
      HWY_UNROLL(8)
      for (int r = 0; r < rows; ++r) {
        const auto value = hn::Set(di, block_x[r * x.blocks * Format::kWords + w]);
        for (int v = 0; v < vectors; ++v) {
          whole[r][v] = Format::add_products(whole[r][v], weights[v], value);
        }
      }
    }
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      const auto scale = hn::Set(d, x_scales[r * x.blocks + b]);
      for (int v = 0; v < vectors; ++v) {
        const auto both = hn::Mul(hn::Load(d, scales + (b * vectors + v) * kLanes), scale);
        sum[r][v] = hn::MulAdd(hn::ConvertTo(d, whole[r][v]), both, sum[r][v]);
      }
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      hn::StoreU(sum[r][v], d, c + r * c_stride + v * kLanes);
    }
  }
}

template <class Format, int vectors, int rows = kQuantizedRows, class... Rest>
HWY_INLINE void run_blocks_kernel(int64_t wanted, Rest&&... rest) {
  if constexpr (rows > 1) {
    if (wanted < rows) {
      run_blocks_kernel<Format, vectors, rows - 1>(wanted, rest...);
      return;
    }
  }
  multiply_blocks<Format, rows, vectors>(rest...);
}

/// Rows [row, row + rows) times one panel's part, into c [rows, width].
template <class Format>
void multiply_part(const QuantizedRows& x, int64_t row, int64_t rows, const PanelPart& part,
                   int64_t width, float* c, int64_t c_stride) {
  HWY_ALIGN float buffer[kQuantizedRows * kPanelWidth];
  for (int64_t r = 0; r < rows; r += kQuantizedRows) {
    const int64_t count = std::min<int64_t>(kQuantizedRows, rows - r);
    if (width == kPanelWidth) {
      run_blocks_kernel<Format, kPanelVectors>(count, x, row + r, part, c + r * c_stride, c_stride);
      continue;
    }
    for (int64_t i = 0; i < count && !part.first; ++i) {
      std::copy_n(c + (r + i) * c_stride, width, buffer + i * kPanelWidth);
      std::fill_n(buffer + i * kPanelWidth + width, kPanelWidth - width, 0.0f);
    }
    run_blocks_kernel<Format, kPanelVectors>(count, x, row + r, part, buffer, kPanelWidth);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(buffer + i * kPanelWidth, width, c + (r + i) * c_stride);
    }
  }
}

template <class Format, class Block>
class QuantizedProduct {
 public:
  explicit QuantizedProduct(const Job<float>& job)
      : job_(job),
        blocks_(job.k / kBlock),
        parts_(std::max<int64_t>(1, (blocks_ + kPart - 1) / kPart)),
        words_(job.m * blocks_ * Format::kWords),
        scales_(job.m * blocks_),
        starts_(job.m * blocks_),
        x_{words_.data(), scales_.data(), starts_.data(), blocks_} {}

  void run() {
    if (job_.m <= kFewRowsAtOnce) {
      for (int64_t row = 0; row < job_.m; ++row) {
        quantize_row(row);
      }
    } else {
      parallel_ranges(job_.m, kFewRowsAtOnce, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          quantize_row(row);
        }
      });
    }
    if (job_.m <= kQuantizedVeryFewRows) {
      very_few_rows();
    } else if (job_.m <= kQuantizedFewRows) {
      few_rows();
    } else {
      many_rows();
    }
  }

 private:
  static constexpr int64_t kFewRowsAtOnce = 4;
  static constexpr int64_t kPartWords = kPart * Format::kWords * kPanelWidth;
  static constexpr int64_t kPartScales = kPart * kPanelWidth;

  int64_t depth(int64_t part) const { return std::min(kPart, blocks_ - part * kPart); }
  const Block* block(int64_t column, int64_t part) const {
    return static_cast<const Block*>(job_.b.data) + column * (job_.b.column_stride / kBlock) +
           part * kPart;
  }

  int64_t column_bytes() const {
    return job_.b.column_stride / kBlock * static_cast<int64_t>(sizeof(Block));
  }

  void quantize_row(int64_t row) {
    constexpr int64_t kRun = 8 * kBlock;
    const bool dense = job_.a.type == Element::f32 && job_.a.column_stride == 1;
    const float* direct = static_cast<const float*>(job_.a.data) + row * job_.a.row_stride;
    HWY_ALIGN float buffer[kRun];
    for (int64_t k = 0; k < job_.k; k += kRun) {
      const int64_t count = std::min(kRun, job_.k - k);
      const float* x = direct + k;
      if (!dense) {
        pack(job_.a, row, k, 1, count, buffer, kRun);
        x = buffer;
      }
      for (int64_t i = 0; i < count; i += kBlock) {
        const int64_t at = row * blocks_ + (k + i) / kBlock;
        quantize_x<Format>(x + i, Format::offset(static_cast<const Block*>(nullptr)),
                           x_.words + at * Format::kWords, x_.scales + at, x_.starts + at);
      }
    }
  }

  /// Tiles of columns as they lie.
  void very_few_rows() {
    for (int64_t row = 0; row < job_.m; ++row) {
      group_row<Format>(block(0, 0), x_.words + row * blocks_ * Format::kWords, blocks_);
    }
    const int64_t tile = streamed_tile(job_.n);
    parallel_for((job_.n + tile - 1) / tile, [&](int64_t index) {
      const int64_t begin = index * tile;
      const int64_t width = std::min(tile, job_.n - begin);
      HWY_ALIGN float buffer[kQuantizedVeryFewRows * kLargestTile];
      ColumnSums part;
      for (int64_t j = 0; j < width; j += kStreams) {
        multiply_columns<Format>(BlockColumns<Block>{.first = block(begin + j, 0),
                                                     .stride = job_.b.column_stride / kBlock,
                                                     .count = std::min(kStreams, width - j)},
                                 x_, job_.m, part, buffer + j, kLargestTile);
      }
      float* sums = sums_of(job_, 0, begin, buffer);
      const int64_t stride = job_.direct() ? job_.c_stride : kLargestTile;
      for (int64_t r = 0; r < job_.m && job_.direct(); ++r) {
        std::copy_n(buffer + r * kLargestTile, width, sums + r * stride);
      }
      finish(job_, 0, begin, job_.m, width, sums, stride);
    });
  }

  /// Tiles of columns in streams; the part of one step is unpacked into L1 and multiplied by all
  /// rows.
  void few_rows() {
    const int64_t tile = streamed_tile(job_.n);
    parallel_for((job_.n + tile - 1) / tile, [&](int64_t index) {
      const int64_t begin = index * tile;
      const Streams streams(std::min(tile, job_.n - begin));
      Scratch<float> by_stream(job_.m * streams.places());
      multiply_streams(begin, streams, by_stream.data());
      Scratch<float> buffer(job_.direct() ? 1 : job_.m * tile);
      float* sums = sums_of(job_, 0, begin, buffer.data());
      const int64_t stride = job_.direct() ? job_.c_stride : tile;
      for (int64_t r = 0; r < job_.m; ++r) {
        const float* from = by_stream.data() + r * streams.places();
        streams.each([&](int64_t c, int64_t place) { sums[r * stride + c] = from[place]; });
      }
      finish(job_, 0, begin, job_.m, streams.width, sums, stride);
    });
  }

  void multiply_streams(int64_t begin, const Streams& streams, float* by_stream) {
    HWY_ALIGN int32_t words[kPart * Format::kWords * kStreams];
    HWY_ALIGN float scales[kPart * kStreams];
    const uint8_t* row[kStreams];
    const int64_t stride = streams.places();
    for (int64_t step = 0; step < streams.steps; ++step) {
      streams.rows(reinterpret_cast<const uint8_t*>(block(begin, 0)), column_bytes(), step, row);
      for (int64_t part = 0; part < parts_; ++part) {
        pack_panel<Format, kStreamVectors>(block(0, 0), row, part * kPart, depth(part), words,
                                           scales);
        const PanelPart panel{part * kPart, depth(part), words, scales, part == 0};
        for (int64_t r = 0; r < job_.m; r += kQuantizedRows) {
          run_blocks_kernel<Format, kStreamVectors>(
              std::min<int64_t>(kQuantizedRows, job_.m - r), x_, r, panel,
              by_stream + r * stride + step * kStreams, stride);
        }
      }
    }
  }

  /// A tile of C from unpacked panels.
  void multiply_tile(int64_t row, int64_t column, int64_t rows, int64_t width,
                     const int32_t* panel_words, const float* panel_scales) {
    Scratch<float> buffer(job_.direct() ? 1 : kQuantizedTileRows * kQuantizedTileColumns);
    float* sums = sums_of(job_, row, column, buffer.data());
    const int64_t stride = job_.direct() ? job_.c_stride : kQuantizedTileColumns;
    for (int64_t part = 0; part < parts_; ++part) {
      for (int64_t j = 0; j < width; j += kPanelWidth) {
        const int64_t at = j / kPanelWidth * parts_ + part;
        multiply_part<Format>(x_, row, rows,
                              {part * kPart, depth(part), panel_words + at * kPartWords,
                               panel_scales + at * kPartScales, part == 0},
                              std::min(kPanelWidth, width - j), sums + j, stride);
      }
    }
    finish(job_, row, column, rows, width, sums, stride);
  }

  void many_rows() {
    const int64_t padded = parts_ * kPart * kBlock;
    const int64_t n_block = std::clamp(
        kUnpackedWeights / padded / kQuantizedTileColumns * kQuantizedTileColumns,
        kQuantizedTileColumns,
        (job_.n + kQuantizedTileColumns - 1) / kQuantizedTileColumns * kQuantizedTileColumns);
    const int64_t panels = n_block / kPanelWidth;
    Scratch<int32_t> words(panels * parts_ * kPartWords);
    Scratch<float> scales(panels * parts_ * kPartScales);
    for (int64_t n0 = 0; n0 < job_.n; n0 += n_block) {
      const int64_t width = std::min(n_block, job_.n - n0);
      parallel_for((width + kPanelWidth - 1) / kPanelWidth, [&](int64_t panel) {
        const uint8_t* row[kPanelWidth];
        for (int64_t i = 0; i < kPanelWidth; ++i) {  // past the end the last column again
          row[i] = reinterpret_cast<const uint8_t*>(
              block(n0 + std::min(panel * kPanelWidth + i, width - 1), 0));
        }
        for (int64_t part = 0; part < parts_; ++part) {
          const int64_t at = panel * parts_ + part;
          pack_panel<Format, kPanelVectors>(block(0, 0), row, part * kPart, depth(part),
                                            words.data() + at * kPartWords,
                                            scales.data() + at * kPartScales);
        }
      });
      // Rows are cut evenly: 1024 are 7 tiles of 132 and one of 100, not 7 of 144 and one of 16.
      const int64_t tile_rows = (job_.m + kQuantizedTileRows - 1) / kQuantizedTileRows;
      const int64_t even = (job_.m + tile_rows - 1) / tile_rows;
      const int64_t height = (even + kQuantizedRows - 1) / kQuantizedRows * kQuantizedRows;
      const int64_t tile_columns = (width + kQuantizedTileColumns - 1) / kQuantizedTileColumns;
      parallel_for(tile_rows * tile_columns, [&](int64_t tile) {
        const int64_t i = tile % tile_rows * height;
        const int64_t j = tile / tile_rows * kQuantizedTileColumns;
        const int64_t at = j / kPanelWidth * parts_;
        if (i < job_.m) {
          multiply_tile(i, n0 + j, std::min(height, job_.m - i),
                        std::min(kQuantizedTileColumns, width - j), words.data() + at * kPartWords,
                        scales.data() + at * kPartScales);
        }
      });
    }
  }

  const Job<float>& job_;
  const int64_t blocks_;
  const int64_t parts_;
  Scratch<int32_t> words_;
  Scratch<float> scales_;
  Scratch<int32_t> starts_;
  QuantizedRows x_;
};

template <class Format>
void run_quantized(const Job<float>& job) {
  if (job.b.type == Element::q8_0) {
    QuantizedProduct<Format, BlockQ8>(job).run();
  } else {
    QuantizedProduct<Format, BlockQ4>(job).run();
  }
}

void quantized_gemm_target(const GemmProblem& problem, [[maybe_unused]] bool dot_instructions) {
  const Job<float> job(problem);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if (dot_instructions) {
    run_quantized<Bytes>(job);
    return;
  }
#endif
  run_quantized<Pairs>(job);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(quantized_gemm_target);

namespace {

bool has_dot_instructions() {
#if HWY_ARCH_X86
  return __builtin_cpu_supports("avx512vnni") != 0;
#elif HWY_ARCH_ARM_A64
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return false;
#endif
}

std::atomic<bool>& dot_instructions() {
  static std::atomic<bool> use{has_dot_instructions()};
  return use;
}

}  // namespace

void use_dot_instructions(bool wanted) {
  dot_instructions().store(wanted && has_dot_instructions());
}

bool uses_dot_instructions() { return dot_instructions().load(); }

void quantized_gemm(const GemmProblem& problem) {
  const Matrix& b = problem.b;
  if (problem.m == 0 || problem.n == 0) {
    return;
  }
  if (b.interleaved != nullptr && multiplies_interleaved()) {
    interleaved_gemm(problem);
  } else if (b.type != Element::q8_0 && b.type != Element::q4_0) {
    quantized_blocks_gemm(problem);
  } else {
    HWY_DYNAMIC_DISPATCH(quantized_gemm_target)(problem, dot_instructions().load());
  }
}

}  // namespace heed::kernels
#endif
