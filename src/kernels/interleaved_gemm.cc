#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/interleave.h"
#include "kernels/quantized_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/interleaved_gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_epilogue-inl.h"
#include "kernels/interleaved_kernel-inl.h"
#include "kernels/pack-inl.h"

// How it works. The rows of A are rounded to 8-bit numbers once. Threads claim tiles of C; a tile
// multiplies some rows of A by groups of 16 columns of B, which are read as they lie, with few rows
// (decoding) in one long stream. Nothing is packed.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#ifndef HEED_NO_LANE_DOTS

#if HWY_TARGET <= HWY_AVX3
constexpr int kLaneRows = 6;    // 12 sums in whole numbers, 12 more of 32 registers
constexpr int kLaneGroups = 2;  // groups that share the broadcast words of A
#else
constexpr int kLaneRows = 2;
constexpr int kLaneGroups = 1;
#endif
constexpr int64_t kLaneTileRows = 192;
constexpr int64_t kLaneTileGroups = 8;
constexpr int64_t kLaneSpan = 2048;  // weights along k at a time: rows of a tile stay in L2

template <class Block>
class InterleavedProduct {
 public:
  explicit InterleavedProduct(const Job<float>& job)
      : job_(job),
        blocks_(job.k / kWeights),
        bytes_(job.m * job.k + 1),
        scales_(job.m * blocks_ + 1),
        starts_(job.m * blocks_ * kPartCount<Block> + 1),
        pairs_(W::kMins && W::kFactors ? job.m * blocks_ * 4 + 1 : 1),
        sums_(W::kMins && !W::kFactors ? job.m * blocks_ + 1 : 1),
        x_{bytes_.data(), scales_.data(), starts_.data(), pairs_.data(),
           sums_.data(),  blocks_,        job.k} {}

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
    const int64_t row_tiles = (job_.m + kLaneTileRows - 1) / kLaneTileRows;
    const int64_t even = (job_.m + row_tiles - 1) / row_tiles;
    const int64_t height = (even + kLaneRows - 1) / kLaneRows * kLaneRows;
    const int64_t tile = std::min(streamed_tile(job_.n), kLaneTileGroups * kGroupColumns);
    parallel_for(row_tiles * ((job_.n + tile - 1) / tile), [&](int64_t index) {
      const int64_t row = index % row_tiles * height;
      const int64_t column = index / row_tiles * tile;
      if (row < job_.m) {
        multiply_tile(row, std::min(height, job_.m - row), column, std::min(tile, job_.n - column));
      }
    });
  }

 private:
  using W = Words32<Block>;
  using I = Interleaved<Block>;
  static constexpr int64_t kWeights = kBlockWeights<Block>;
  static constexpr int64_t kSpanBlocks = kLaneSpan / kWeights;

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
      round_lanes<Block>(x, x_, row, block);
    }
  }

  GroupPointers pointers(int64_t group, int64_t block) const {
    const auto* first = static_cast<const uint8_t*>(job_.b.interleaved) + group * stride();
    return {first + block * I::kWords * 64,
            first + group_words_bytes<Block>(blocks_) + block * I::kSide, stride()};
  }
  int64_t stride() const { return group_bytes<Block>(blocks_); }

  template <int groups, int rows = kLaneRows>
  void multiply_rows(int64_t row, int64_t wanted, int64_t block, int64_t blocks,
                     const GroupPointers& at, float* c, int64_t c_stride) {
    if constexpr (rows > 1) {
      if (wanted < rows) {
        multiply_rows<groups, rows == 6 ? 4 : rows - 1>(row, wanted, block, blocks, at, c,
                                                        c_stride);
        return;
      }
    }
    multiply_lanes<Block, rows, groups>(x_, row, block, blocks, at, c, c_stride);
    if (wanted > rows) {
      multiply_rows<groups, rows>(row + rows, wanted - rows, block, blocks, at, c + rows * c_stride,
                                  c_stride);
    }
  }

  template <int groups>
  void multiply_groups(int64_t row, int64_t rows, int64_t block, int64_t blocks, int64_t group,
                       float* c, int64_t c_stride) {
    const GroupPointers at = pointers(group, block);
    for (int64_t r = 0; r < rows; r += kLaneRows) {
      multiply_rows<groups>(row + r, std::min<int64_t>(kLaneRows, rows - r), block, blocks, at,
                            c + r * c_stride, c_stride);
    }
  }

  void multiply_tile(int64_t row, int64_t rows, int64_t column, int64_t width) {
    const int64_t groups = (width + kGroupColumns - 1) / kGroupColumns;
    const bool direct = job_.direct() && width % kGroupColumns == 0;
    const int64_t stride = direct ? job_.c_stride : groups * kGroupColumns;
    Scratch<float> buffer(direct ? 1 : rows * stride);
    float* sums = direct ? sums_of(job_, row, column, buffer.data()) : buffer.data();
    if (blocks_ == 0) {
      for (int64_t r = 0; r < rows; ++r) {
        std::fill_n(sums + r * stride, width, 0.0f);
      }
    }
    for (int64_t block = 0; block < blocks_; block += kSpanBlocks) {
      const int64_t blocks = std::min(kSpanBlocks, blocks_ - block);
      int64_t g = 0;
      for (; g + kLaneGroups <= groups; g += kLaneGroups) {
        multiply_groups<kLaneGroups>(row, rows, block, blocks, column / kGroupColumns + g,
                                     sums + g * kGroupColumns, stride);
      }
      if (g < groups) {
        multiply_groups<1>(row, rows, block, blocks, column / kGroupColumns + g,
                           sums + g * kGroupColumns, stride);
      }
    }
    if (job_.direct() && !direct) {
      float* c = sums_of(job_, row, column, buffer.data());
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(sums + r * stride, width, c + r * job_.c_stride);
      }
      finish(job_, row, column, rows, width, c, job_.c_stride);
    } else {
      finish(job_, row, column, rows, width, sums, stride);
    }
  }

  const Job<float>& job_;
  const int64_t blocks_;
  Scratch<int8_t> bytes_;
  Scratch<float> scales_;
  Scratch<int32_t> starts_;
  Scratch<int32_t> pairs_;
  Scratch<float> sums_;
  RoundedLanes x_;
};

#endif  // HEED_NO_LANE_DOTS

bool has_lane_dots([[maybe_unused]] bool dot_instructions) {
#if defined(HEED_NO_LANE_DOTS)
  return false;
#elif HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return dot_instructions;
#else
  return true;
#endif
}

void interleaved_gemm_target([[maybe_unused]] int64_t m, [[maybe_unused]] int64_t n,
                             [[maybe_unused]] int64_t k, [[maybe_unused]] const Matrix& a,
                             [[maybe_unused]] const Matrix& b, [[maybe_unused]] void* c,
                             [[maybe_unused]] Element c_type, [[maybe_unused]] int64_t c_stride,
                             [[maybe_unused]] const Epilogue& epilogue) {
#ifndef HEED_NO_LANE_DOTS
  const Job<float> job{m, n, k, a, b, c, c_type, c_stride, false, epilogue};
  with_block_of(b.type, [&]<class Block>(const Block*) {
    if constexpr (Interleaved<Block>::kWords != 0) {
      InterleavedProduct<Block>(job).run();
    }
  });
#endif
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(has_lane_dots);
HWY_EXPORT(interleaved_gemm_target);

bool multiplies_interleaved() {
  return HWY_DYNAMIC_DISPATCH(has_lane_dots)(uses_dot_instructions());
}

void interleaved_gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c,
                      Element c_type, int64_t c_stride, const Epilogue& epilogue) {
  HWY_DYNAMIC_DISPATCH(interleaved_gemm_target)(m, n, k, a, b, c, c_type, c_stride, epilogue);
}

}  // namespace heed::kernels
#endif
