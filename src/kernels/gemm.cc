#include "kernels/gemm.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/quantized_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_lanes-inl.h"
#include "kernels/gemm_rows-inl.h"

// How it works. A and B are copied into panels, in the compute type and cut into equal blocks of at
// most kPanelDepth along k: [block][depth][kRows] of A, [block][depth][columns()] of B. The
// micro-kernel holds a kRows × columns() piece of C in registers. Tiles of C are claimed by
// threads; a tile goes through all of k, so that its epilogue runs while it is in L2. Between two
// blocks of k the piece of C is stored and loaded again, which changes no bit: the sum over k is
// one chain.
//
// With few rows (decoding) the time goes into reading B: see kernels/gemm_rows-inl.h. 16-bit
// weights that lie along k have an order of their own: kernels/gemm_lanes-inl.h.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// k in equal blocks.
struct Cut {
  explicit Cut(int64_t k)
      : whole(k),
        blocks(std::max<int64_t>(1, (k + kPanelDepth - 1) / kPanelDepth)),
        depth((k + blocks - 1) / blocks) {}
  int64_t depth_of(int64_t block) const { return std::min(depth, whole - block * depth); }
  int64_t padded() const { return blocks * depth; }

  int64_t whole, blocks, depth;
};

/// One panel of A, turned.
template <class T>
void pack_a(const Job<T>& job, const Cut& cut, int64_t row, int64_t rows, T* panel) {
  const Matrix turned{job.a.data, job.a.type, job.a.column_stride, job.a.row_stride};
  for (int64_t block = 0; block < cut.blocks; ++block) {
    pack(turned, block * cut.depth, row, cut.depth_of(block), rows,
         panel + block * cut.depth * kRows, kRows);
  }
}

/// One tile of C from packed panels.
template <class T>
void multiply_tile(const Job<T>& job, const Cut& cut, int64_t row, int64_t column, int64_t rows,
                   int64_t width, const T* a_panels, const T* b_panels) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t a_panel = cut.padded() * kRows;
  const int64_t b_panel = cut.padded() * kWidth;
  Scratch<T> buffer(job.direct() ? 1 : kTileRows * kTileColumns);
  T* sums = sums_of(job, row, column, buffer.data());
  const int64_t stride = job.direct() ? job.c_stride : kTileColumns;
  for (int64_t block = 0; block < cut.blocks; ++block) {
    const T* first = a_panels + block * cut.depth * kRows;
    for (int64_t j = 0; j < width; j += kWidth) {
      const T* b = b_panels + j / kWidth * b_panel + block * cut.depth * kWidth;
      for (int64_t i = 0; i < rows; i += kRows) {
        const T* a = first + i / kRows * a_panel;
        multiply_piece(std::min<int64_t>(kRows, rows - i), std::min(kWidth, width - j), a, b,
                       cut.depth_of(block), sums + i * stride + j, stride,
                       block == 0 && !job.accumulate, i + kRows < rows ? a + a_panel : first);
      }
    }
  }
  finish(job, row, column, rows, width, sums, stride);
}

template <class T>
void many_rows(const Job<T>& job) {
  constexpr int64_t kWidth = columns<T>();
  const Cut cut(job.k);
  const int64_t depth = std::max<int64_t>(1, cut.padded());
  const int64_t m_block = std::clamp(kPackedElements / depth / kTileRows * kTileRows, kTileRows,
                                     round_up(job.m, kTileRows));
  const int64_t n_block = std::clamp(kPackedElements / depth / kTileColumns * kTileColumns,
                                     kTileColumns, round_up(job.n, kTileColumns));
  Scratch<T> packed_a(m_block * depth);
  Scratch<T> packed_b(n_block * depth);
  const int64_t a_panel = cut.padded() * kRows;
  const int64_t b_panel = cut.padded() * kWidth;
  for (int64_t m0 = 0; m0 < job.m; m0 += m_block) {
    const int64_t rows = std::min(m_block, job.m - m0);
    for (int64_t n0 = 0; n0 < job.n; n0 += n_block) {
      const int64_t width = std::min(n_block, job.n - n0);
      const int64_t a_count = n0 == 0 ? (rows + kRows - 1) / kRows : 0;
      const int64_t b_count = (width + kWidth - 1) / kWidth;
      parallel_for(a_count + b_count, [&](int64_t tile) {
        if (tile < a_count) {
          pack_a(job, cut, m0 + tile * kRows, std::min<int64_t>(kRows, rows - tile * kRows),
                 packed_a.data() + tile * a_panel);
          return;
        }
        const int64_t panel = tile - a_count;
        for (int64_t block = 0; block < cut.blocks; ++block) {
          pack_b(job, n0 + panel * kWidth, std::min(kWidth, width - panel * kWidth),
                 block * cut.depth, cut.depth_of(block),
                 packed_b.data() + panel * b_panel + block * cut.depth * kWidth);
        }
      });
      // Rows are cut evenly: 1024 are 7 tiles of 132 and one of 100, not 7 of 144 and one of 16.
      const int64_t tile_rows = (rows + kTileRows - 1) / kTileRows;
      const int64_t height = round_up((rows + tile_rows - 1) / tile_rows, kRows);
      const int64_t tile_columns = (width + kTileColumns - 1) / kTileColumns;
      parallel_for(tile_rows * tile_columns, [&](int64_t tile) {
        const int64_t i = tile % tile_rows * height;
        const int64_t j = tile / tile_rows * kTileColumns;
        if (i < rows) {
          multiply_tile(job, cut, m0 + i, n0 + j, std::min(height, rows - i),
                        std::min(kTileColumns, width - j), packed_a.data() + i / kRows * a_panel,
                        packed_b.data() + j / kWidth * b_panel);
        }
      });
    }
  }
}

template <class T>
void run(const Job<T>& job) {
  if constexpr (std::is_same_v<T, float>) {
    if (takes_lanes(job)) {
      lane_product(job);
      return;
    }
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
