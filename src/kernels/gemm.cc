#include "kernels/gemm.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/quantized_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_rows-inl.h"

// How it works. A and B are copied into panels (A: kRows rows of k, B: columns() columns of k, both
// zero-padded), in the compute type and cut into blocks of kDepth along k. The micro-kernel holds a
// kRows × columns() piece of C in registers. Tiles of C are claimed by threads; a tile goes through
// all of k, so that its epilogue runs while it is in L2. Between two blocks of k the piece of C is
// stored and loaded again, which changes no bit: the sum over k is one chain.
//
// With few rows (decoding) the time goes into reading B: see kernels/gemm_rows-inl.h.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// One tile of C from packed panels.
template <class T>
void multiply_tile(const Job<T>& job, int64_t row, int64_t column, int64_t rows, int64_t width,
                   const T* a_panels, const T* b_panels) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t a_panel = blocks_of(job) * kRows * kDepth;
  const int64_t b_panel = round_up(job.k, kDepth) * kWidth;
  Scratch<T> buffer(job.direct() ? 1 : kTileRows * kTileColumns);
  T* sums = sums_of(job, row, column, buffer.data());
  const int64_t stride = job.direct() ? job.c_stride : kTileColumns;
  for (int64_t block = 0; block < blocks_of(job); ++block) {
    for (int64_t j = 0; j < width; j += kWidth) {
      const T* b = b_panels + j / kWidth * b_panel + block * kDepth * kWidth;
      for (int64_t i = 0; i < rows; i += kRows) {
        const T* a = a_panels + i / kRows * a_panel + block * kRows * kDepth;
        multiply_piece(std::min<int64_t>(kRows, rows - i), std::min(kWidth, width - j), a, b,
                       depth_of(job, block), sums + i * stride + j, stride,
                       block == 0 && !job.accumulate);
      }
    }
  }
  finish(job, row, column, rows, width, sums, stride);
}

template <class T>
void many_rows(const Job<T>& job) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t depth = blocks_of(job) * kDepth;
  const int64_t m_block = std::clamp(kPackedElements / depth / kTileRows * kTileRows, kTileRows,
                                     round_up(job.m, kTileRows));
  const int64_t n_block = std::clamp(kPackedElements / depth / kTileColumns * kTileColumns,
                                     kTileColumns, round_up(job.n, kTileColumns));
  Scratch<T> packed_a(m_block * depth);
  Scratch<T> packed_b(n_block * depth);
  const int64_t a_panel = kRows * depth;
  const int64_t b_panel = kWidth * depth;
  for (int64_t m0 = 0; m0 < job.m; m0 += m_block) {
    const int64_t rows = std::min(m_block, job.m - m0);
    for (int64_t n0 = 0; n0 < job.n; n0 += n_block) {
      const int64_t width = std::min(n_block, job.n - n0);
      const int64_t a_count = n0 == 0 ? (rows + kRows - 1) / kRows : 0;
      const int64_t b_count = (width + kWidth - 1) / kWidth;
      parallel_for(a_count + b_count, [&](int64_t tile) {
        if (tile < a_count) {
          pack_a(job, m0 + tile * kRows, std::min<int64_t>(kRows, rows - tile * kRows),
                 packed_a.data() + tile * a_panel);
          return;
        }
        const int64_t panel = tile - a_count;
        for (int64_t block = 0; block < blocks_of(job); ++block) {
          pack_b(job, n0 + panel * kWidth, std::min(kWidth, width - panel * kWidth), block * kDepth,
                 depth_of(job, block), packed_b.data() + panel * b_panel + block * kDepth * kWidth);
        }
      });
      const int64_t tile_rows = (rows + kTileRows - 1) / kTileRows;
      const int64_t tile_columns = (width + kTileColumns - 1) / kTileColumns;
      parallel_for(tile_rows * tile_columns, [&](int64_t tile) {
        const int64_t i = tile % tile_rows * kTileRows;
        const int64_t j = tile / tile_rows * kTileColumns;
        multiply_tile(job, m0 + i, n0 + j, std::min(kTileRows, rows - i),
                      std::min(kTileColumns, width - j), packed_a.data() + i / kRows * a_panel,
                      packed_b.data() + j / kWidth * b_panel);
      });
    }
  }
}

template <class T>
void run(const Job<T>& job) {
  if constexpr (std::is_same_v<T, float>) {
    if (takes_few_rows(job)) {
      few_rows(job);
      return;
    }
  }
  many_rows(job);
}

void gemm_f32(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c,
              Element c_type, int64_t c_stride, bool accumulate, const Epilogue& epilogue) {
  run(Job<float>{m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue});
}
void gemm_f64(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c,
              Element c_type, int64_t c_stride, bool accumulate, const Epilogue& epilogue) {
  run(Job<double>{m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue});
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(gemm_f32);
HWY_EXPORT(gemm_f64);

void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c,
          Element c_type, int64_t c_stride, bool accumulate, const Epilogue& epilogue) {
  if (m == 0 || n == 0) {
    return;
  }
  if (b.type == Element::q8_0 || b.type == Element::q4_0) {
    quantized_gemm(m, n, k, a, b, c, c_type, c_stride, epilogue);
  } else if (c_type == Element::f64) {
    HWY_DYNAMIC_DISPATCH(gemm_f64)(m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue);
  } else {
    HWY_DYNAMIC_DISPATCH(gemm_f32)(m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue);
  }
}

}  // namespace heed::kernels
#endif
