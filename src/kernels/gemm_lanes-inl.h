// The product with 16-bit weights that lie along k: a column of B is read as it lies, 16 elements
// at a time, and an element of C is 16 chains of fused multiply-adds, chain i over k = i, i + 16,
// …, which sum_lines() adds up. One long stream of memory, no transposing: that is what decoding
// needs. With many rows the same sums come from pieces of 6 × 4 elements. Per target: include
// inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_LANES_INL_H_
#undef HEED_KERNELS_GEMM_LANES_INL_H_
#else
#define HEED_KERNELS_GEMM_LANES_INL_H_
#endif
// clang-format on

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

constexpr int64_t kChains = 16;  // of an element, on every target
constexpr int kChainVectors = static_cast<int>(kChains) / hn::MaxLanes(hn::ScalableTag<float>());
constexpr int64_t kGroup = 16;  // columns whose chains are added up together
#if HWY_TARGET <= HWY_AVX3
constexpr int kDotRows = 6, kDotColumns = 4;  // 24 sums of 32 registers
#else
constexpr int kDotRows = 3, kDotColumns = 2;  // 12 of 16 where a vector holds 8 chains
#endif
constexpr int64_t kLaneTileRows = 96;
constexpr int64_t kLaneRowBytes = 384 * 1024;  // of A in a tile: stays in L2
constexpr int64_t kLongestLaneTile = 256;

/// Rows of A in f32, each padded with zeros to whole steps of kChains.
class LaneRows {
 public:
  explicit LaneRows(const Job<float>& job)
      : direct_(job.a.type == Element::f32 && job.a.column_stride == 1 && job.k % kChains == 0),
        stride_(direct_ ? job.a.row_stride : round_up(job.k, kChains)),
        packed_(direct_ ? 1 : job.m * stride_),
        data_(direct_ ? static_cast<const float*>(job.a.data) : packed_.data()) {
    if (direct_) {
      return;
    }
    parallel_ranges(job.m, kLaneTileRows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* to = packed_.data() + r * stride_;
        pack(job.a, r, 0, 1, job.k, to, stride_);
        std::fill(to + job.k, to + stride_, 0.0f);
      }
    });
  }
  const float* at(int64_t row) const { return data_ + row * stride_; }
  int64_t stride() const { return stride_; }

 private:
  bool direct_;
  int64_t stride_;
  Scratch<float> packed_;
  const float* data_;
};

/// Of each four lanes of four vectors ((0 + 2) + (1 + 3)): those of vector j at place j.
HWY_INLINE FloatVec sum_fours(const FloatVec* v) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> d64;
  const auto ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const auto ef = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ef));
  const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ef));
  return hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));
}

/// The sums of kGroup elements from their chains [kGroup][kChains]: fours as above, F0 … F3, and
/// then (F0 + F2) + (F1 + F3), whatever the width of a vector.
template <class D = hn::ScalableTag<float>>
HWY_INLINE void sum_lines(const float* lines, float* sums) {
  const D d;
  constexpr int64_t kLanes = hn::MaxLanes(D());
  const auto fours = [&](int64_t line, int64_t chain) HWY_ATTR {
    FloatVec v[4];
    for (int64_t i = 0; i < 4; ++i) {
      v[i] = hn::Load(d, lines + (line + i) * kChains + chain);
    }
    return sum_fours(v);
  };
  if constexpr (kLanes == 16) {
    const auto two_fours = [&](int64_t line) HWY_ATTR {  // of lines `line` and `line` + 8
      const auto a = fours(line, 0);
      const auto b = fours(line + 8, 0);
      const auto half = hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
      return hn::Add(half, hn::SwapAdjacentBlocks(half));
    };
    hn::Store(hn::OddEvenBlocks(two_fours(4), two_fours(0)), d, sums);
  } else if constexpr (kLanes == 8) {
    const auto four = [&](int64_t line) HWY_ATTR {
      const auto half = hn::Add(fours(line, 0), fours(line, 8));
      return hn::Add(half, hn::SwapAdjacentBlocks(half));
    };
    for (int64_t line = 0; line < kGroup; line += 8) {
      hn::Store(hn::OddEvenBlocks(four(line + 4), four(line)), d, sums + line);
    }
  } else {
    for (int64_t line = 0; line < kGroup; line += 4) {
      const auto even = hn::Add(fours(line, 0), fours(line, 8));
      hn::Store(hn::Add(even, hn::Add(fours(line, 4), fours(line, 12))), d, sums + line);
    }
  }
}

/// The `count` (below kChains) elements at the end of a column; zeros past them.
template <class B>
HWY_INLINE void load_chains(const B* b, int64_t count, FloatVec* value) {
  const hn::ScalableTag<float> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  for (int v = 0; v < kChainVectors; ++v) {
    const int64_t here = HWY_MAX(int64_t{0}, HWY_MIN(kLanes, count - v * kLanes));
    value[v] = load_upto(d, b + v * kLanes, static_cast<size_t>(here));
  }
}

/// Chains of `rows` × `columns` elements, to lines + (row * kGroup + column) * kChains. `later`:
/// what is fetched meanwhile, a step's bytes at each step, or nullptr.
template <int rows, int columns, class B>
HWY_NOINLINE void dot_piece(const float* HWY_RESTRICT x, int64_t x_stride, const B* HWY_RESTRICT b,
                            int64_t b_stride, int64_t k, float* lines, const uint8_t* later) {
  const hn::ScalableTag<float> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  constexpr int64_t kStepBytes = columns * kChains * static_cast<int64_t>(sizeof(B));
  FloatVec sum[rows][columns][kChainVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      for (int v = 0; v < kChainVectors; ++v) {
        sum[r][c][v] = hn::Zero(d);
      }
    }
  }
  const auto step = [&](int64_t i, const FloatVec(*value)[kChainVectors]) HWY_ATTR {
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < kChainVectors; ++v) {
        const auto factor = hn::LoadU(d, x + r * x_stride + i + v * kLanes);
        for (int c = 0; c < columns; ++c) {
          sum[r][c][v] = hn::MulAdd(factor, value[c][v], sum[r][c][v]);
        }
      }
    }
  };
  int64_t i = 0;
  for (; i + kChains <= k; i += kChains) {
    FloatVec value[columns][kChainVectors];
    for (int c = 0; c < columns; ++c) {
      for (int v = 0; v < kChainVectors; ++v) {
        value[c][v] = load(d, b + c * b_stride + i + v * kLanes);
      }
    }
    if (later != nullptr) {
      for (int64_t byte = 0; byte < kStepBytes; byte += 64) {
        fetch_later(later + byte);
      }
      later += kStepBytes;
    }
    step(i, value);
  }
  if (i < k) {
    FloatVec value[columns][kChainVectors];
    for (int c = 0; c < columns; ++c) {
      load_chains(b + c * b_stride + i, k - i, value[c]);
    }
    step(i, value);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      for (int v = 0; v < kChainVectors; ++v) {
        hn::Store(sum[r][c][v], d, lines + (r * kGroup + c) * kChains + v * kLanes);
      }
    }
  }
}

template <int columns, int rows = kDotRows, class... Rest>
HWY_INLINE void run_dot_piece(int64_t wanted, Rest... rest) {
  if constexpr (rows > 1) {
    if (wanted < rows) {
      run_dot_piece<columns, rows - 1>(wanted, rest...);
      return;
    }
  }
  dot_piece<rows, columns>(rest...);
}

/// Up to kDotRows rows from `row` on times `width` (up to kGroup) columns of B, into `sums`, whose
/// rows are `stride` apart.
template <class B>
struct LaneGroup {
  int64_t row;
  int64_t rows;
  const B* b;
  int64_t width;
  float* sums;
  int64_t stride;
};

/// `fetch`: whether the columns that follow are fetched meanwhile.
template <class B>
void lane_group(const Job<float>& job, const LaneRows& x, const LaneGroup<B>& group, bool fetch) {
  const auto [row, rows, b, width, sums, stride] = group;
  HWY_ALIGN float lines[kDotRows * kGroup * kChains];
  const int64_t b_stride = job.b.column_stride;
  int64_t c = 0;
  // One row: one column after the other, the pattern that the machine's prefetcher likes best.
  // More: several at a time, for rows of A may lie in L2, and what comes next is fetched in one
  // stream.
  for (; job.m > 1 && c + kDotColumns <= width; c += kDotColumns) {
    const B* from = b + c * b_stride;
    run_dot_piece<kDotColumns>(
        rows, x.at(row), x.stride(), from, b_stride, job.k, lines + c * kChains,
        fetch ? reinterpret_cast<const uint8_t*>(from + kDotColumns * b_stride) : nullptr);
  }
  for (; c < width; ++c) {
    run_dot_piece<1>(rows, x.at(row), x.stride(), b + c * b_stride, b_stride, job.k,
                     lines + c * kChains, static_cast<const uint8_t*>(nullptr));
  }
  for (int64_t r = 0; r < rows; ++r) {
    HWY_ALIGN float elements[kGroup];
    float* line = lines + r * kGroup * kChains;
    std::fill(line + width * kChains, line + kGroup * kChains, 0.0f);
    sum_lines(line, elements);
    float* to = sums + r * stride;
    for (int64_t i = 0; i < width; ++i) {
      to[i] = job.accumulate ? to[i] + elements[i] : elements[i];
    }
  }
}

/// Whether lane_product() takes this product.
template <class T>
bool takes_lanes(const Job<T>& job) {
  return (job.b.type == Element::f16 || job.b.type == Element::bf16) && job.b.row_stride == 1;
}

/// Columns of a tile: long streams, and enough tiles for threads to share them. By n alone.
inline int64_t lane_tile(int64_t n) {
  constexpr int64_t kTiles = 12;
  return HWY_MIN(round_up((n + kTiles - 1) / kTiles, kGroup), kLongestLaneTile);
}

template <class B>
void lane_product_of(const Job<float>& job, const B* b) {
  const LaneRows x(job);
  const int64_t most = HWY_MIN(
      kLaneTileRows, HWY_MAX(kLaneRowBytes / (HWY_MAX(job.k, int64_t{1}) * 4), int64_t{32}));
  const int64_t tile_rows = (job.m + most - 1) / most;
  const int64_t height = round_up((job.m + tile_rows - 1) / tile_rows, kDotRows);
  const int64_t tile = lane_tile(job.n);
  parallel_for((job.n + tile - 1) / tile * tile_rows, [&](int64_t index) {
    const int64_t row = index % tile_rows * height;
    const int64_t column = index / tile_rows * tile;
    const int64_t rows = HWY_MIN(height, job.m - row);
    const int64_t width = HWY_MIN(tile, job.n - column);
    if (rows <= 0) {
      return;
    }
    Scratch<float> buffer(job.direct() ? 1 : rows * width);
    float* sums = sums_of(job, row, column, buffer.data());
    const int64_t stride = job.direct() ? job.c_stride : width;
    const int64_t passes = (rows + kDotRows - 1) / kDotRows;
    for (int64_t j = 0; j < width; j += kGroup) {
      const B* from = b + (column + j) * job.b.column_stride;
      for (int64_t pass = 0; pass < passes; ++pass) {
        const int64_t r = pass * kDotRows;
        lane_group(job, x,
                   LaneGroup<B>{.row = row + r,
                                .rows = HWY_MIN(int64_t{kDotRows}, rows - r),
                                .b = from,
                                .width = HWY_MIN(kGroup, width - j),
                                .sums = sums + r * stride + j,
                                .stride = stride},
                   pass == 0);
      }
    }
    finish(job, row, column, rows, width, sums, stride);
  });
}

inline void lane_product(const Job<float>& job) {
  if (job.b.type == Element::f16) {
    lane_product_of(job, static_cast<const Half*>(job.b.data));
  } else {
    lane_product_of(job, static_cast<const BFloat16*>(job.b.data));
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_LANES_INL_H_
