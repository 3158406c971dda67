// The bf16 product on ARM's matrix instruction (BFMMLA). Per target: include inside foreach_target
// files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_BFMMLA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_BFMMLA_INL_H_
#undef HEED_KERNELS_GEMM_BFMMLA_INL_H_
#else
#define HEED_KERNELS_GEMM_BFMMLA_INL_H_
#endif
// clang-format on

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#undef HEED_BFMMLA
#if HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#define HEED_BFMMLA 1

// Both operands are packed into panels of 8 lines (rows of A, columns of B): [steps][8][4], where a
// step is 4 k, and zeros lie past the end of lines and of k. The instruction multiplies two lines
// of each by one another, so that a block of C of 8 × 8 is 16 registers of 2 × 2 sums. Steps start
// at k = 0, whatever the shape: an element depends on its row and its column alone.

constexpr int64_t kMmlaLines = 8;
constexpr int64_t kMmlaStep = 4;
constexpr int64_t kMmlaWords = kMmlaLines * kMmlaStep;  // bf16 of a panel per step
constexpr int64_t kMmlaDepth = 256;                     // steps at a time: two panels stay in L1
constexpr int64_t kMmlaArea = 64;  // rows and columns of C that one thread multiplies at a time

/// sum [2, 2] + a [2, 4] · b [2, 4]ᵀ: two k at a time, whose products are added to each other and
/// then to the sum, all rounded to odd, and subnormal numbers count as zero.
HWY_INLINE float32x4_t add_mmla(float32x4_t sum, uint16x8_t a, uint16x8_t b) {
  asm(".arch armv8.6-a\n\tbfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}

/// A panel of up to 8 lines: element i of line l is from[l * line_stride + i * k_stride].
struct MmlaLines {
  int64_t count;
  int64_t k;
  int64_t line_stride;
  int64_t k_stride;
};

/// Lines along k, four numbers at a time.
template <class T>
void pack_along_k(const T* from, const MmlaLines& lines, uint16_t* to) {
  const hn::ScalableTag<float> d;
  for (int64_t l = 0; l < lines.count; ++l, from += lines.line_stride) {
    uint16_t* at = to + l * kMmlaStep;
    int64_t i = 0;
    for (; i + kMmlaStep <= lines.k; i += kMmlaStep, at += kMmlaWords) {
      if constexpr (std::is_same_v<T, BFloat16>) {
        std::memcpy(at, from + i, kMmlaStep * sizeof(uint16_t));
      } else {
        store(load(d, from + i), d, reinterpret_cast<BFloat16*>(at));
      }
    }
    if (i < lines.k) {
      store(load_some(d, from + i, static_cast<size_t>(lines.k - i)), d,
            reinterpret_cast<BFloat16*>(at));
    }
  }
}

/// Eight neighbours rounded to bf16; past `count` zeros.
template <class T>
HWY_INLINE uint16x8_t eight_neighbours(const T* from, int64_t count) {
  alignas(16) T some[kMmlaLines] = {};
  if (count < kMmlaLines) {
    std::copy_n(from, count, some);
    from = some;
  }
  if constexpr (std::is_same_v<T, BFloat16>) {
    return vld1q_u16(reinterpret_cast<const uint16_t*>(from));
  } else {
    const hn::ScalableTag<float> d;
    const auto upper = [&](const T* p)
                           HWY_ATTR { return vshrn_n_u32(nearest_bf16(d, load(d, p)).raw, 16); };
    return vcombine_u16(upper(from), upper(from + 4));
  }
}

/// Lines side by side: four rows of 8 neighbours, transposed.
template <class T>
void pack_across(const T* from, const MmlaLines& lines, uint16_t* to) {
  for (int64_t i = 0; i < lines.k; i += kMmlaStep, to += kMmlaWords) {
    uint16x8_t row[kMmlaStep];
    for (int64_t r = 0; r < kMmlaStep; ++r) {
      row[r] = i + r < lines.k ? eight_neighbours(from + (i + r) * lines.k_stride, lines.count)
                               : vdupq_n_u16(0);
    }
    const uint16x8x2_t even = vzipq_u16(row[0], row[2]);
    const uint16x8x2_t odd = vzipq_u16(row[1], row[3]);
    for (int half = 0; half < 2; ++half) {
      const uint16x8x2_t four = vzipq_u16(even.val[half], odd.val[half]);
      vst1q_u16(to + half * 16, four.val[0]);
      vst1q_u16(to + half * 16 + 8, four.val[1]);
    }
  }
}

template <class T>
void pack_mmla(const T* from, const MmlaLines& lines, uint16_t* to) {
  if (lines.line_stride == 1 && lines.k_stride != 1) {
    pack_across(from, lines, to);
    return;
  }
  if (lines.count < kMmlaLines || lines.k % kMmlaStep != 0) {
    std::fill_n(to, (lines.k + kMmlaStep - 1) / kMmlaStep * kMmlaWords, uint16_t{0});
  }
  if (lines.k_stride == 1) {
    pack_along_k(from, lines, to);
    return;
  }
  for (int64_t l = 0; l < lines.count; ++l) {
    for (int64_t i = 0; i < lines.k; ++i) {
      to[i / kMmlaStep * kMmlaWords + l * kMmlaStep + i % kMmlaStep] =
          to_bfloat16(widen(from[l * lines.line_stride + i * lines.k_stride])).bits;
    }
  }
}

/// Panels of lines [first, end) of a matrix [k, lines], in parallel.
inline void pack_mmla_panels(const Matrix& matrix, int64_t k, int64_t first, int64_t end,
                             uint16_t* panels) {
  const int64_t size = (k + kMmlaStep - 1) / kMmlaStep * kMmlaWords;
  parallel_for((end - first + kMmlaLines - 1) / kMmlaLines, [&](int64_t panel) {
    const int64_t line = first + panel * kMmlaLines;
    with_data<float>(matrix, 0, line, [&](const auto* from) {
      pack_mmla(from,
                {std::min(kMmlaLines, end - line), k, matrix.column_stride, matrix.row_stride},
                panels + panel * size);
    });
  });
}

/// A block of C, up to 8 × 8, from a panel of A and one of B over `steps` steps.
struct MmlaBlock {
  const uint16_t* a;
  const uint16_t* b;
  int64_t steps;
  float* c;
  int64_t c_stride;
  bool first;  ///< sums start from zero, else from what C holds
};

/// C[2 · pairs, 8] (+)= A · B.
template <int pairs>
HWY_NOINLINE void mmla_rows(const MmlaBlock& block) {
  constexpr int kPairs = static_cast<int>(kMmlaLines) / 2;
  const uint16_t* HWY_RESTRICT a = block.a;
  const uint16_t* HWY_RESTRICT b = block.b;
  float* c = block.c;
  const int64_t stride = block.c_stride;
  float32x4_t sum[pairs][kPairs];
  HWY_UNROLL(4)
  for (int r = 0; r < pairs; ++r) {
    for (int j = 0; j < kPairs; ++j) {
      const float* at = c + 2 * r * stride + 2 * j;
      sum[r][j] = block.first ? vdupq_n_f32(0) : vcombine_f32(vld1_f32(at), vld1_f32(at + stride));
    }
  }
  for (int64_t s = 0; s < block.steps; ++s, a += kMmlaWords, b += kMmlaWords) {
    uint16x8_t column[kPairs];
    HWY_UNROLL(4)
    for (int j = 0; j < kPairs; ++j) {
      column[j] = vld1q_u16(b + 8 * j);
    }
    HWY_UNROLL(4)
    for (int r = 0; r < pairs; ++r) {
      const uint16x8_t row = vld1q_u16(a + 8 * r);
      HWY_UNROLL(4)
      for (int j = 0; j < kPairs; ++j) {
        sum[r][j] = add_mmla(sum[r][j], row, column[j]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < pairs; ++r) {
    for (int j = 0; j < kPairs; ++j) {
      float* at = c + 2 * r * stride + 2 * j;
      vst1_f32(at, vget_low_f32(sum[r][j]));
      vst1_f32(at + stride, vget_high_f32(sum[r][j]));
    }
  }
}

/// A block of `rows` × `width`, through a buffer where it has fewer columns or an odd row.
inline void mmla_block(const MmlaBlock& block, int64_t rows, int64_t width) {
  if (rows % 2 != 0 || width < kMmlaLines) {
    alignas(16) float buffer[kMmlaLines * kMmlaLines] = {};
    for (int64_t r = 0; r < rows && !block.first; ++r) {
      std::copy_n(block.c + r * block.c_stride, width, buffer + r * kMmlaLines);
    }
    MmlaBlock whole = block;
    whole.c = buffer;
    whole.c_stride = kMmlaLines;
    mmla_block(whole, rows + rows % 2, kMmlaLines);
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(buffer + r * kMmlaLines, width, block.c + r * block.c_stride);
    }
    return;
  }
  switch (rows / 2) {
    case 1:
      return mmla_rows<1>(block);
    case 2:
      return mmla_rows<2>(block);
    case 3:
      return mmla_rows<3>(block);
    default:
      return mmla_rows<4>(block);
  }
}

/// An area of C from panels of its rows and columns: a block of k at a time, sums wait in C or in a
/// buffer.
inline void multiply_mmla(const Job<float>& job, const Area& area, const uint16_t* a,
                          const uint16_t* b) {
  const int64_t all = (job.k + kMmlaStep - 1) / kMmlaStep;
  const int64_t stride = job.direct() ? job.c_stride : kMmlaArea;
  const Scratch<float> buffer(job.direct() ? 1 : kMmlaArea * kMmlaArea);
  float* sums = sums_of(job, area.row, area.column, buffer.data());
  for (int64_t step = 0; step == 0 || step < all; step += kMmlaDepth) {
    const int64_t steps = std::min(kMmlaDepth, all - step);
    for (int64_t j = 0; j < area.width; j += kMmlaLines) {
      const int64_t width = std::min(kMmlaLines, area.width - j);
      for (int64_t i = 0; i < area.rows; i += kMmlaLines) {
        const int64_t rows = std::min(kMmlaLines, area.rows - i);
        const MmlaBlock block{.a = a + i * all * kMmlaStep + step * kMmlaWords,
                              .b = b + j * all * kMmlaStep + step * kMmlaWords,
                              .steps = steps,
                              .c = sums + i * stride + j,
                              .c_stride = stride,
                              .first = step == 0 && !job.accumulate};
        mmla_block(block, rows, width);
        if (step + steps == all) {
          finish(job, area.row + i, area.column + j, rows, width, block.c, stride);
        }
      }
    }
  }
}

/// Every product in bf16 on a machine with the instruction, whatever its shape.
inline void bfmmla_product(const Job<float>& job) {
  const int64_t depth = std::max<int64_t>(1, round_up(job.k, kMmlaStep));
  const Matrix rows{job.a.data, job.a.type, job.a.column_stride, job.a.row_stride};
  each_shared_part(job.n, depth, kMmlaArea, [&](int64_t left, int64_t right) {
    Scratch<uint16_t> b(round_up(right - left, kMmlaLines) * depth);
    pack_mmla_panels(job.b, job.k, left, right, b.data());
    each_shared_part(job.m, depth, kMmlaArea, [&](int64_t top, int64_t bottom) {
      Scratch<uint16_t> a(round_up(bottom - top, kMmlaLines) * depth);
      pack_mmla_panels(rows, job.k, top, bottom, a.data());
      const int64_t tall = (bottom - top + kMmlaArea - 1) / kMmlaArea;
      const int64_t wide = (right - left + kMmlaArea - 1) / kMmlaArea;
      parallel_for(tall * wide, [&](int64_t task) {
        const int64_t row = task % tall * kMmlaArea;
        const int64_t column = task / tall * kMmlaArea;
        multiply_mmla(job,
                      {top + row, left + column, std::min(kMmlaArea, bottom - top - row),
                       std::min(kMmlaArea, right - left - column)},
                      a.data() + row * depth, b.data() + column * depth);
      });
    });
  });
}

#else
#define HEED_BFMMLA 0
#endif

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_BFMMLA_INL_H_
