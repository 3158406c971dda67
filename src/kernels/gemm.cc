#include "kernels/gemm.h"

#include <algorithm>
#include <optional>

#include "base/ahead.h"
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
// threads; a tile goes through all packed blocks, so that its epilogue runs while it is in L2.
// Between two blocks of k the piece of C is stored and loaded again, which changes no bit: the sum
// over k is one chain. A long k (the vocabulary, in the gradient of a language model's last rows)
// is packed a span of blocks at a time: panels over all of it would leave room for one tile only.
//
// With few rows (decoding) the time goes into reading B: see kernels/gemm_rows-inl.h. 16-bit
// weights that lie along k have an order of their own: kernels/gemm_lanes-inl.h.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

constexpr int64_t kPanelsTogether = 4;  // packed by one task

/// k in equal blocks, and these in equal spans of at most `most`.
struct Cut {
  Cut(int64_t k, int64_t most)
      : whole(k),
        blocks(pieces(k, kPanelDepth)),
        depth((k + blocks - 1) / blocks),
        spans(pieces(blocks, most)),
        span_blocks((blocks + spans - 1) / spans) {}

  int64_t depth_of(int64_t block) const { return std::min(depth, whole - block * depth); }
  int64_t padded() const { return span_blocks * depth; }

  int64_t whole, blocks, depth, spans, span_blocks;

 private:
  static int64_t pieces(int64_t length, int64_t most) {
    return std::max<int64_t>(1, (length + most - 1) / most);
  }
};

/// The blocks of k that are packed together.
struct Span {
  Span(const Cut& of, int64_t index)
      : cut(of), first(index * of.span_blocks), end(std::min(first + of.span_blocks, of.blocks)) {}
  bool is_last() const { return end == cut.blocks; }
  /// Where a block's piece of a panel starts, in steps of k.
  int64_t place(int64_t block) const { return (block - first) * cut.depth; }

  const Cut& cut;
  int64_t first, end;
};

/// Panels of A, turned, from `row` on.
template <class T>
void pack_a(const Job<T>& job, const Span& span, int64_t row, int64_t rows, T* panels) {
  const Matrix turned{job.a.data, job.a.type, job.a.column_stride, job.a.row_stride};
  for (int64_t block = span.first; block < span.end; ++block) {
    pack_panels(turned, block * span.cut.depth, row, span.cut.depth_of(block), rows, int64_t{kRows},
                panels + span.place(block) * kRows, span.cut.padded() * kRows);
  }
}

/// Panels of B from `column` on.
template <class T>
void pack_b(const Job<T>& job, const Span& span, int64_t column, int64_t width, T* panels) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t stride = span.cut.padded() * kWidth;
  const bool together = job.b.column_stride == 1 && width % kWidth == 0;
  for (int64_t block = span.first; block < span.end; ++block) {
    const int64_t k = block * span.cut.depth;
    const int64_t depth = span.cut.depth_of(block);
    T* to = panels + span.place(block) * kWidth;
    if (together) {
      pack_panels(job.b, k, column, depth, width, kWidth, to, stride);
      continue;
    }
    for (int64_t j = 0; j < width; j += kWidth, to += stride) {
      pack_b(job, column + j, std::min(kWidth, width - j), k, depth, to);
    }
  }
}

/// A tile of C and where its sums gather: in C itself, or in a buffer where C is of another type.
template <class T>
struct Tile {
  Tile(const Job<T>& of, int64_t first_row, int64_t first_column, int64_t row_count,
       int64_t column_count)
      : job(of),
        row(first_row),
        column(first_column),
        rows(row_count),
        width(column_count),
        buffer(of.direct() ? 1 : row_count * kTileColumns),
        sums(sums_of(of, row, column, buffer.data())),
        stride(of.direct() ? of.c_stride : kTileColumns) {}

  /// One block of k; panels of A and B lie a_panel and b_panel apart.
  void multiply(int64_t block, int64_t depth, const T* a_panels, int64_t a_panel, const T* b_panels,
                int64_t b_panel) const {
    constexpr int64_t kWidth = columns<T>();
    for (int64_t j = 0; j < width; j += kWidth) {
      const T* b = b_panels + j / kWidth * b_panel;
      for (int64_t i = 0; i < rows; i += kRows) {
        const T* a = a_panels + i / kRows * a_panel;
        multiply_piece(std::min<int64_t>(kRows, rows - i), std::min(kWidth, width - j), a, b, depth,
                       sums + i * stride + j, stride, block == 0 && !job.accumulate,
                       i + kRows < rows ? a + a_panel : a_panels);
      }
    }
  }
  void finish() const { HWY_NAMESPACE::finish(job, row, column, rows, width, sums, stride); }

  const Job<T>& job;
  int64_t row, column, rows, width;
  Scratch<T> buffer;
  T* sums;
  int64_t stride;
};

/// One tile of C from packed panels.
template <class T>
void multiply_tile(const Job<T>& job, const Span& span, int64_t row, int64_t column, int64_t rows,
                   int64_t width, const T* a_panels, const T* b_panels) {
  constexpr int64_t kWidth = columns<T>();
  const Tile<T> tile(job, row, column, rows, width);
  for (int64_t block = span.first; block < span.end; ++block) {
    tile.multiply(block, span.cut.depth_of(block), a_panels + span.place(block) * kRows,
                  span.cut.padded() * kRows, b_panels + span.place(block) * kWidth,
                  span.cut.padded() * kWidth);
  }
  if (span.is_last()) {
    tile.finish();
  }
}

/// Packs a block of A (where `pack_rows`) and of B, and multiplies them.
template <class T>
void multiply_block(const Job<T>& job, const Span& span, int64_t m0, int64_t rows, int64_t n0,
                    int64_t width, bool pack_rows, T* packed_a, T* packed_b) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t a_panel = span.cut.padded() * kRows;
  const int64_t b_panel = span.cut.padded() * kWidth;
  constexpr int64_t kRowsTogether = kPanelsTogether * kRows;
  constexpr int64_t kColumnsTogether = kPanelsTogether * kWidth;
  const int64_t a_count = pack_rows ? (rows + kRowsTogether - 1) / kRowsTogether : 0;
  const int64_t b_count = (width + kColumnsTogether - 1) / kColumnsTogether;
  parallel_for(a_count + b_count, [&](int64_t task) {
    if (task < a_count) {
      const int64_t i = task * kRowsTogether;
      pack_a(job, span, m0 + i, std::min(kRowsTogether, rows - i), packed_a + i / kRows * a_panel);
      return;
    }
    const int64_t j = (task - a_count) * kColumnsTogether;
    pack_b(job, span, n0 + j, std::min(kColumnsTogether, width - j),
           packed_b + j / kWidth * b_panel);
  });
  // Rows are cut evenly: 1024 are 7 tiles of 132 and one of 100, not 7 of 144 and one of 16.
  const int64_t tile_rows = (rows + kTileRows - 1) / kTileRows;
  const int64_t height = round_up((rows + tile_rows - 1) / tile_rows, kRows);
  const int64_t tile_columns = (width + kTileColumns - 1) / kTileColumns;
  parallel_for(tile_rows * tile_columns, [&](int64_t tile) {
    const int64_t i = tile % tile_rows * height;
    const int64_t j = tile / tile_rows * kTileColumns;
    if (i < rows) {
      multiply_tile(job, span, m0 + i, n0 + j, std::min(height, rows - i),
                    std::min(kTileColumns, width - j), packed_a + i / kRows * a_panel,
                    packed_b + j / kWidth * b_panel);
    }
  });
}

/// Whether a block of k of all rows fits into L2 beside a tile's panels of B.
template <class T>
bool is_one_row_of_tiles(const Job<T>& job) {
  return job.m <= 2 * kTileRows && job.m * Cut(job.k, 1).depth <= kTileRows * kPanelDepth;
}

/// No two tiles share columns of B, so each packs its own, a block of k at a time, and finds them
/// in L2.
template <class T>
void one_row_of_tiles(const Job<T>& job) {
  constexpr int64_t kWidth = columns<T>();
  constexpr int64_t kRowsTogether = kPanelsTogether * kRows;
  const Cut cut(job.k, job.k + 1);
  const Span all(cut, 0);
  const int64_t a_panel = cut.padded() * kRows;
  Scratch<T> packed_a(round_up(job.m, kRows) * std::max<int64_t>(1, cut.padded()));
  parallel_ranges(job.m, kRowsTogether, [&](int64_t begin, int64_t end) {
    pack_a(job, all, begin, end - begin, packed_a.data() + begin / kRows * a_panel);
  });
  constexpr int64_t kTasks = 8;  // at least, where there are columns for them
  const int64_t most =
      std::clamp(round_up((job.n + kTasks - 1) / kTasks, kWidth), kWidth, kTileColumns);
  parallel_ranges(job.n, most, [&](int64_t begin, int64_t end) {
    const Tile<T> tile(job, 0, begin, job.m, end - begin);
    Scratch<T> packed_b(most * std::max<int64_t>(1, cut.depth));
    const Cut single(cut.whole, 1);
    for (int64_t block = 0; block < cut.blocks; ++block) {
      pack_b(job, Span(single, block), begin, end - begin, packed_b.data());
      tile.multiply(block, cut.depth_of(block), packed_a.data() + all.place(block) * kRows, a_panel,
                    packed_b.data(), cut.depth * kWidth);
    }
    tile.finish();
  });
}

template <class T>
void many_rows(const Job<T>& job) {
  // Sums wait in C from one span to the next, so C must be of their type.
  const Cut cut(job.k, job.direct() ? kSpanBlocks : job.k + 1);
  const int64_t depth = std::max<int64_t>(1, cut.padded());
  const int64_t m_block = std::clamp(kPackedElements / depth / kTileRows * kTileRows, kTileRows,
                                     round_up(job.m, kTileRows));
  const int64_t n_block = std::clamp(kPackedElements / depth / kTileColumns * kTileColumns,
                                     kTileColumns, round_up(job.n, kTileColumns));
  Scratch<T> packed_a(m_block * depth);
  Scratch<T> packed_b(n_block * depth);
  for (int64_t index = 0; index < cut.spans; ++index) {
    const Span span(cut, index);
    for (int64_t m0 = 0; m0 < job.m; m0 += m_block) {
      for (int64_t n0 = 0; n0 < job.n; n0 += n_block) {
        multiply_block(job, span, m0, std::min(m_block, job.m - m0), n0,
                       std::min(n_block, job.n - n0), n0 == 0, packed_a.data(), packed_b.data());
      }
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
  if (is_one_row_of_tiles(job)) {
    one_row_of_tiles(job);
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

namespace {

/// The order in which a thread multiplies by its weights. While a model decodes it is the same in
/// every step: between two products, when one thread normalises or attends, the others can fetch
/// the weights that come next.
class WeightOrder {
 public:
  void pass(const void* weights) {
    if (before_ != nullptr) {
      *before_ = weights;
    }
    Entry& entry = entries_[reinterpret_cast<uintptr_t>(weights) / 4096 % kEntries];
    if (entry.weights != weights) {
      entry = {weights, nullptr};
    }
    before_ = &entry.next;
    fetch_ahead(entry.next, entry.next != nullptr ? kBytes : 0);
  }

 private:
  static constexpr size_t kEntries = 1024;
  static constexpr int64_t kBytes = 384 * 1024;  // beside what a thread works with in L2
  struct Entry {
    const void* weights = nullptr;
    const void* next = nullptr;
  };
  Entry entries_[kEntries];
  const void** before_ = nullptr;
};

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c,
          Element c_type, int64_t c_stride, bool accumulate, const Epilogue& epilogue) {
  if (m == 0 || n == 0) {
    return;
  }
  constexpr double kSmall = 65536;  // multiplications: about two microseconds
  std::optional<Alone> alone;
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= kSmall) {
    alone.emplace();
  }
  constexpr int64_t kDecoding = 32;  // rows
  if (m <= kDecoding && !inside_parallel()) {
    thread_local WeightOrder order;
    order.pass(b.data);
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
