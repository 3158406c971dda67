#include <algorithm>
#include <atomic>
#include <limits>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/interleave.h"
#include "kernels/quantized_gemm.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/interleaved_gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_epilogue-inl.h"
#include "kernels/interleaved_stream-inl.h"
#include "kernels/interleaved_super-inl.h"
#include "kernels/pack-inl.h"

// How it works. The rows of A are rounded to 8-bit numbers once. Threads claim tiles of C; a tile
// multiplies some rows of A by groups of 16 columns of B, which are read as they lie, with few rows
// (decoding) in one long stream. One row has a kernel of its own for superblocks
// (kernels/interleaved_stream-inl.h); for many rows a superblock is unpacked once
// (kernels/interleaved_super-inl.h).

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
constexpr int64_t kLanePanelRows = 48;  // from here on superblocks are unpacked once for all rows
constexpr int64_t kLaneTileRows = 192;
constexpr int64_t kLaneTileGroups = 8;
constexpr int64_t kLaneSpan = 2048;  // weights along k at a time: rows of a tile stay in L2

/// One block of activations: to −127 … 127, to the nearest even. A block that is not finite gets
/// NaN for its scale; one whose scale's inverse overflows counts as zeros.
template <class Block>
void round_lanes(const float* x, const RoundedLanes& rows, int64_t row, int64_t block) {
  constexpr int64_t kWeights = kBlockWeights<Block>;
  using W = Words32<Block>;
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d);
  auto finite = hn::Eq(largest, largest);
  for (int64_t i = 0; i < kWeights; i += lanes) {
    const auto size = hn::Abs(hn::LoadU(d, x + i));
    finite = hn::And(finite, hn::Le(size, hn::Set(d, std::numeric_limits<float>::max())));
    largest = hn::Max(largest, size);
  }
  const bool usable = hn::AllTrue(d, finite);
  const float most = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float inverse = usable && most > 0 ? 127.0f / most : 0.0f;
  const bool zero = !(inverse <= std::numeric_limits<float>::max()) || inverse == 0.0f;
  const auto factor = hn::Set(d, zero ? 0.0f : inverse);
  int32_t sums[kWeights / 16];
  int8_t* bytes = rows.bytes + row * rows.k + block * kWeights;
  for (int64_t part = 0; part < kWeights / 16; ++part) {
    auto sum = hn::Zero(di);
    for (int64_t i = 16 * part; i < 16 * part + 16; i += lanes) {
      const auto v = usable ? hn::LoadU(d, x + i) : hn::Zero(d);
      const auto whole = hn::NearestInt(hn::Mul(v, factor));
      sum = hn::Add(sum, whole);
      hn::StoreU(hn::DemoteTo(d8, whole), d8, bytes + i);
    }
    sums[part] = hn::GetLane(hn::SumOfLanes(di, sum));
  }
  const int64_t index = row * rows.blocks + block;
  rows.scales[index] = !usable ? std::numeric_limits<float>::quiet_NaN()
                       : zero  ? 0.0f
                               : most / 127.0f;
  if constexpr (kWeights == kBlock) {
    const int32_t sum = sums[0] + sums[1];
    rows.starts[index] = -kLaneOffset<Block> * sum;
    if constexpr (W::kMins) {
      rows.sums[index] = static_cast<float>(sum);
    }
  } else if constexpr (kPartCount<Block> == 16) {
    for (int64_t s = 0; s < 16; ++s) {  // by round and part: see Words32<BlockQ6K>
      const int64_t at = (s / 8 * 2 + s % 2) * 4 + s % 8 / 2;
      rows.starts[index * 16 + at] = -kLaneOffset<Block> * sums[s];
    }
  }
  if constexpr (kWeights == kSuperblock && W::kMins) {
    const auto of_32 = [&](int64_t i) { return sums[2 * i] + sums[2 * i + 1]; };
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t first = i / 2 * 4 + i % 2;
      rows.min_pairs[index * 4 + i] =
          static_cast<int32_t>(static_cast<uint32_t>(of_32(first + 2)) << 16 |
                               (static_cast<uint32_t>(of_32(first)) & 0xffffu));
    }
  }
}

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
    const int64_t height = (even + kMostRows - 1) / kMostRows * kMostRows;
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
  using Single = typename RowBlock<Block>::Type;  // of one row
  static constexpr int64_t kWeights = kBlockWeights<Block>;
  static constexpr int64_t kSpanBlocks = kLaneSpan / kWeights;
  static constexpr int kMostRows = kByMatrix<Block> ? 4 : kLaneRows;

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

  GroupPointers pointers(int64_t group) const {
    return {static_cast<const uint8_t*>(job_.b.interleaved) + group * stride(), stride()};
  }
  int64_t stride() const { return group_bytes<Block>(blocks_); }

  /// Calls run<count>(r) for `rows` rows, kMostRows of them at a time and fewer at the end.
  template <int count = kMostRows, class Run>
  static void in_rows(int64_t r, int64_t rows, const Run& run) {
    for (; r + count <= rows; r += count) {
      run.template operator()<count>(r);
    }
    if constexpr (count > 1) {
      in_rows<count == 6 ? 4 : kByMatrix<Block> ? count / 2 : count - 1>(r, rows, run);
    }
  }

  template <int groups>
  void multiply_groups(int64_t row, int64_t rows, int64_t block, int64_t blocks, int64_t group,
                       float* c, int64_t c_stride) {
    const GroupPointers at = pointers(group);
    if constexpr (W::kFactors) {
      if (rows >= kLanePanelRows) {
        LanePanel<Block, groups> panel;
        for (int64_t b = block; b < block + blocks; ++b) {
          panel.unpack(at, b);
          in_rows(0, rows, [&]<int count>(int64_t r) {
            multiply_unpacked<Block, count, groups>(x_, row + r, b, at, panel, c + r * c_stride,
                                                    c_stride);
          });
        }
        return;
      }
    }
    in_rows(0, rows, [&]<int count>(int64_t r) {
      multiply_lanes<std::conditional_t<count == 1, Single, Block>, count, groups>(
          x_, row + r, block, blocks, at, c + r * c_stride, c_stride);
    });
  }

  void stream_group(int64_t row, int64_t block, int64_t blocks, int64_t group, float* c) {
    if constexpr (W::kFactors) {
      stream_super<Single>(x_, row, block, blocks, pointers(group), c);
    } else {
      multiply_plain<Single, 1, 1>(x_, row, block, blocks, pointers(group), c, 0);
    }
  }

  void multiply_tile(int64_t row, int64_t rows, int64_t column, int64_t width) {
    const int64_t groups = (width + kGroupColumns - 1) / kGroupColumns;
    const bool direct = job_.direct() && width % kGroupColumns == 0;
    const int64_t stride = direct ? job_.c_stride : groups * kGroupColumns;
    Scratch<float> buffer(direct ? 1 : rows * stride);
    float* sums = direct ? sums_of(job_, row, column, buffer.data()) : buffer.data();
    if (blocks_ == 0 || (W::kFactors && rows > 1)) {  // where the chain of superblocks starts
      for (int64_t r = 0; r < rows; ++r) {
        std::fill_n(sums + r * stride, groups * kGroupColumns, 0.0f);
      }
    }
    const int64_t span = rows <= kMostRows ? blocks_ : kSpanBlocks;
    for (int64_t block = 0; block < blocks_; block += span) {
      const int64_t blocks = std::min(span, blocks_ - block);
      int64_t g = 0;
      for (; rows == 1 && g < groups; ++g) {  // one stream
        stream_group(row, block, blocks, column / kGroupColumns + g, sums + g * kGroupColumns);
      }
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

void interleaved_gemm_target([[maybe_unused]] const GemmProblem& problem,
                             [[maybe_unused]] bool dot_instructions,
                             [[maybe_unused]] bool matrix_instructions) {
#ifndef HEED_NO_LANE_DOTS
  const Job<float> job(problem);
  with_block_of(job.b.type, [&]<class Block>(const Block*) {
    if constexpr (Interleaved<Block>::kWords != 0) {
#if HWY_ARCH_ARM_A64
      if (dot_instructions && matrix_instructions && job.m > 1) {
        InterleavedProduct<WithMatrixInstruction<Block>>(job).run();
        return;
      }
      if (dot_instructions) {
        InterleavedProduct<WithDotInstruction<Block>>(job).run();
        return;
      }
#endif
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

namespace {

bool has_matrix_instructions() {
#if HWY_ARCH_ARM_A64 && defined(__linux__)
  constexpr unsigned long kHasI8mm = 1ul << 13;  // HWCAP2_I8MM
  return (getauxval(AT_HWCAP2) & kHasI8mm) != 0;
#else
  return false;
#endif
}

std::atomic<bool>& matrix_instructions() {
  static std::atomic<bool> use{has_matrix_instructions()};
  return use;
}

}  // namespace

bool multiplies_interleaved() {
  return HWY_DYNAMIC_DISPATCH(has_lane_dots)(uses_dot_instructions());
}

void interleaved_gemm(const GemmProblem& problem) {
  HWY_DYNAMIC_DISPATCH(interleaved_gemm_target)
  (problem, uses_dot_instructions(), uses_matrix_instructions());
}

void use_matrix_instructions(bool wanted) {
  matrix_instructions().store(wanted && has_matrix_instructions());
}

bool uses_matrix_instructions() { return matrix_instructions().load(); }

}  // namespace heed::kernels
#endif
