#include "kernels/gemm.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pack-inl.h"
#include "kernels/simd-inl.h"

// How it works. A and B are copied into panels (A: kRows rows of k, B: columns() columns of k, both
// zero-padded), in the compute type and cut into blocks of kDepth along k. The micro-kernel holds a
// kRows × columns() piece of C in registers. Tiles of C are claimed by threads; a tile goes through
// all of k, so that its epilogue runs while it is in L2. Between two blocks of k the piece of C is
// stored and loaded again, which changes no bit: the sum over k is one chain.
//
// With few rows (decoding) the time goes into reading B: each tile then packs its own columns of B
// into L1/L2 and multiplies at once, with the same micro-kernel and the same bits.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 12;  // 24 accumulators of 32 registers
#else
constexpr int kRows = 6;  // 12 accumulators of 16
#endif
constexpr int kVectors = 2;        // of columns
constexpr int64_t kDepth = 384;    // k at a time: a panel of A or B streams through L1
constexpr int64_t kTileRows = 144;  // a tile of C: with its panels about half of L2
constexpr int64_t kTileColumns = 256;
constexpr int64_t kFewRows = 32;           // up to here B is packed tile by tile
constexpr int64_t kSmallTileColumns = 128;
constexpr int64_t kPackedElements = int64_t{4} << 20;  // of A or B in panels at a time

template <class T>
constexpr int64_t columns() {
  return kVectors * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
}

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// C[rows, columns] (+)= panel of A · panel of B over `depth` steps. B: [depth][columns()],
/// A: [kRows][kDepth].
template <int rows, class T>
HWY_NOINLINE void micro_kernel(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t depth, T* c,
                               int64_t c_stride, bool first) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[rows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = first ? hn::Zero(d) : hn::LoadU(d, c + r * c_stride + v * lanes);
    }
  }
  for (int64_t i = 0; i < depth; ++i) {
    const auto b0 = hn::Load(d, b);
    const auto b1 = hn::Load(d, b + lanes);
    HWY_UNROLL(16)
    for (int r = 0; r < rows; ++r) {
      const auto x = hn::Set(d, a[r * kDepth + i]);
      sum[r][0] = hn::MulAdd(x, b0, sum[r][0]);
      sum[r][1] = hn::MulAdd(x, b1, sum[r][1]);
    }
    b += columns<T>();
  }
  HWY_UNROLL(16)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, c + r * c_stride + v * lanes);
    }
  }
}

template <class T, int rows = kRows>
void run_micro_kernel(int64_t wanted, const T* a, const T* b, int64_t depth, T* c, int64_t c_stride,
                      bool first) {
  if constexpr (rows > 1) {
    if (wanted < rows) {
      run_micro_kernel<T, rows - 1>(wanted, a, b, depth, c, c_stride, first);
      return;
    }
  }
  micro_kernel<rows>(a, b, depth, c, c_stride, first);
}

/// The same where the piece may be narrower than columns(): through a buffer.
template <class T>
void multiply_piece(int64_t rows, int64_t width, const T* a, const T* b, int64_t depth, T* c,
                    int64_t c_stride, bool first) {
  constexpr int64_t kWidth = columns<T>();
  if (width == kWidth) {
    run_micro_kernel<T>(rows, a, b, depth, c, c_stride, first);
    return;
  }
  HWY_ALIGN T buffer[kRows * kWidth];
  for (int64_t r = 0; r < rows && !first; ++r) {
    std::copy_n(c + r * c_stride, width, buffer + r * kWidth);
    std::fill_n(buffer + r * kWidth + width, kWidth - width, T{0});
  }
  run_micro_kernel<T>(rows, a, b, depth, buffer, kWidth, first);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(buffer + r * kWidth, width, c + r * c_stride);
  }
}

/// Everything a tile needs to know.
template <class T>
struct Job {
  int64_t m, n, k;
  const Matrix& a;
  const Matrix& b;
  void* c;
  Element c_type;
  int64_t c_stride;
  bool accumulate;
  const Epilogue& epilogue;

  int64_t blocks() const { return std::max<int64_t>(1, (k + kDepth - 1) / kDepth); }
  int64_t depth(int64_t block) const { return std::min(kDepth, k - block * kDepth); }
  bool direct() const { return c_type == kElementOf<T>; }
};

/// Panels of A: [panel][block][kRows][kDepth].
template <class T>
void pack_a(const Job<T>& job, int64_t row, int64_t rows, T* panel) {
  for (int64_t block = 0; block < job.blocks(); ++block) {
    pack(job.a, row, block * kDepth, rows, job.depth(block), panel, kDepth);
    panel += kRows * kDepth;
  }
}

/// One panel of B: [block][depth][columns()].
template <class T>
void pack_b(const Job<T>& job, int64_t column, int64_t width, int64_t block, T* panel) {
  constexpr int64_t kWidth = columns<T>();
  if (width < kWidth) {
    std::fill_n(panel, job.depth(block) * kWidth, T{0});
  }
  pack(job.b, block * kDepth, column, job.depth(block), width, panel, kWidth);
}

template <class T, class C>
void finish_row(const Job<T>& job, int64_t row, int64_t column, int64_t count, const T* sums, C* c) {
  const auto n = static_cast<size_t>(count);
  const Epilogue& e = job.epilogue;
  if (e.bias != nullptr) {
    map(c, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, sums,
        static_cast<const C*>(e.bias) + column);
  } else if (static_cast<const void*>(sums) != static_cast<const void*>(c)) {
    map(c, n, [](auto, auto x) HWY_ATTR { return x; }, sums);
  }
  if (e.before != nullptr) {
    std::copy_n(c, count, static_cast<C*>(e.before) + row * job.n + column);
  }
  if (e.activation != Unary::identity) {
    unary(e.activation, c, c, count);
  }
  if (e.residual != nullptr) {
    map(c, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, c,
        static_cast<const C*>(e.residual) + row * e.residual_stride + column);
  }
}

/// Bias, activation and residual on a finished tile; converts where C is not of the compute type.
template <class T, class C>
void finish_tile(const Job<T>& job, int64_t row, int64_t column, int64_t rows, int64_t width,
                 const T* sums, int64_t sums_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    C* c = static_cast<C*>(job.c) + (row + r) * job.c_stride + column;
    finish_row(job, row + r, column, width, sums + r * sums_stride, c);
  }
}

template <class T>
void finish(const Job<T>& job, int64_t row, int64_t column, int64_t rows, int64_t width,
            const T* sums, int64_t stride) {
  const Epilogue& e = job.epilogue;
  if (job.direct()) {
    if (e.bias != nullptr || e.before != nullptr || e.activation != Unary::identity || e.residual != nullptr) {
      finish_tile<T, T>(job, row, column, rows, width, sums, stride);
    }
  } else if constexpr (std::is_same_v<T, float>) {
    if (job.c_type == Element::bf16) {
      finish_tile<T, BFloat16>(job, row, column, rows, width, sums, stride);
    } else {
      finish_tile<T, Half>(job, row, column, rows, width, sums, stride);
    }
  }
}

/// Where a tile's sums go: C itself, or a buffer where C is of a narrower type.
template <class T>
T* sums_of(const Job<T>& job, int64_t row, int64_t column, T* buffer) {
  return job.direct() ? static_cast<T*>(job.c) + row * job.c_stride + column : buffer;
}

template <class T>
void few_rows(const Job<T>& job) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t panels = (job.m + kRows - 1) / kRows;
  const int64_t a_panel = job.blocks() * kRows * kDepth;
  Scratch<T> packed_a(panels * a_panel);
  for (int64_t p = 0; p < panels; ++p) {
    pack_a(job, p * kRows, std::min<int64_t>(kRows, job.m - p * kRows), packed_a.data() + p * a_panel);
  }
  parallel_for((job.n + kSmallTileColumns - 1) / kSmallTileColumns, [&](int64_t tile) {
    const int64_t begin = tile * kSmallTileColumns;
    const int64_t width = std::min(kSmallTileColumns, job.n - begin);
    Scratch<T> panel(kDepth * kWidth);
    Scratch<T> buffer(job.direct() ? 1 : job.m * kSmallTileColumns);
    T* sums = sums_of(job, 0, begin, buffer.data());
    const int64_t stride = job.direct() ? job.c_stride : kSmallTileColumns;
    for (int64_t column = 0; column < width; column += kWidth) {
      const int64_t piece = std::min(kWidth, width - column);
      for (int64_t block = 0; block < job.blocks(); ++block) {
        pack_b(job, begin + column, piece, block, panel.data());
        for (int64_t p = 0; p < panels; ++p) {
          multiply_piece(std::min<int64_t>(kRows, job.m - p * kRows), piece,
                         packed_a.data() + p * a_panel + block * kRows * kDepth, panel.data(),
                         job.depth(block), sums + p * kRows * stride + column, stride,
                         block == 0 && !job.accumulate);
        }
      }
    }
    finish(job, 0, begin, job.m, width, sums, stride);
  });
}

/// One tile of C from packed panels.
template <class T>
void multiply_tile(const Job<T>& job, int64_t row, int64_t column, int64_t rows, int64_t width,
                   const T* a_panels, const T* b_panels) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t a_panel = job.blocks() * kRows * kDepth;
  const int64_t b_panel = round_up(job.k, kDepth) * kWidth;
  Scratch<T> buffer(job.direct() ? 1 : kTileRows * kTileColumns);
  T* sums = sums_of(job, row, column, buffer.data());
  const int64_t stride = job.direct() ? job.c_stride : kTileColumns;
  for (int64_t block = 0; block < job.blocks(); ++block) {
    for (int64_t j = 0; j < width; j += kWidth) {
      const T* b = b_panels + j / kWidth * b_panel + block * kDepth * kWidth;
      for (int64_t i = 0; i < rows; i += kRows) {
        const T* a = a_panels + i / kRows * a_panel + block * kRows * kDepth;
        multiply_piece(std::min<int64_t>(kRows, rows - i), std::min(kWidth, width - j), a, b,
                       job.depth(block), sums + i * stride + j, stride, block == 0 && !job.accumulate);
      }
    }
  }
  finish(job, row, column, rows, width, sums, stride);
}

template <class T>
void many_rows(const Job<T>& job) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t depth = job.blocks() * kDepth;
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
        for (int64_t block = 0; block < job.blocks(); ++block) {
          pack_b(job, n0 + panel * kWidth, std::min(kWidth, width - panel * kWidth), block,
                 packed_b.data() + panel * b_panel + block * kDepth * kWidth);
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
  if (job.m <= kFewRows) {
    few_rows(job);
  } else {
    many_rows(job);
  }
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

void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c, Element c_type,
          int64_t c_stride, bool accumulate, const Epilogue& epilogue) {
  if (m == 0 || n == 0) {
    return;
  }
  if (c_type == Element::f64) {
    HWY_DYNAMIC_DISPATCH(gemm_f64)(m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue);
  } else {
    HWY_DYNAMIC_DISPATCH(gemm_f32)(m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue);
  }
}

}  // namespace heed::kernels
#endif
