#include "kernels/gemm.h"

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "base/prefetch.h"
#include "base/scratch.h"
#include "kernels/quantize.h"
#include "kernels/quantized_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_lanes-inl.h"
#include "kernels/gemm_rows-inl.h"

// How it works. A and B are copied into panels, in the compute type and cut into equal blocks of at
// most kPanelDepth along k: [block][depth][kRows] of A, [block][depth][columns()] of B. The
// micro-kernel holds a kRows × columns() piece of C in registers. The smaller operand is packed for
// all, a block of k at a time, and stays in L3; C is cut along the larger one into strips that
// threads claim, and a strip packs its own part of it into L2, where nobody else wants it. Between
// two blocks of k the piece of C is stored and loaded again, which changes no bit: the sum over k
// is one chain. The epilogue runs tile by tile, while a tile is in L2.
//
// With few rows (decoding) the time goes into reading B: see kernels/gemm_rows-inl.h. 16-bit
// weights that lie along k have an order of their own: kernels/gemm_lanes-inl.h.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

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

/// Panels of A, transposed, from `row` on.
template <class T>
void pack_a(const Job<T>& job, const Span& span, int64_t row, int64_t rows, T* panels) {
  const Matrix transposed{job.a.data, job.a.type, job.a.column_stride, job.a.row_stride};
  for (int64_t block = span.first; block < span.end; ++block) {
    pack_panels(transposed, block * span.cut.depth, row, span.cut.depth_of(block), rows,
                int64_t{kRows}, panels + span.place(block) * kRows, span.cut.padded() * kRows);
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

/// One tile of C from the panels of its rows and columns.
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

/// Rows or columns in strips of whole panels, as equal as can be and not large: at the end one
/// thread waits for another's strip.
struct Strips {
  Strips(int64_t all, int64_t panel, int64_t most)
      : length(all), width(panel), panels((all + panel - 1) / panel) {
    constexpr int64_t kEnough = 8;
    count = panels <= kEnough ? panels : (panels + most - 1) / most;
  }
  int64_t begin(int64_t strip) const { return std::min(length, strip * panels / count * width); }
  int64_t largest() const { return (panels + count - 1) / count * width; }

  int64_t length, width, panels, count;
};

/// Calls fn(begin, end) for equal parts of [0, length) of which `depth` elements each fit into the
/// shared panels.
template <class Fn>
void each_shared_part(int64_t length, int64_t depth, int64_t panel, Fn&& fn) {
  const int64_t most = std::max(panel, kSharedElements / depth);
  const int64_t parts = (length + most - 1) / most;
  const int64_t step = round_up((length + parts - 1) / parts, panel);
  for (int64_t begin = 0; begin < length; begin += step) {
    fn(begin, std::min(length, begin + step));
  }
}

/// Panels of A are shared, strips of columns pack their own of B.
template <class T>
void strips_of_columns(const Job<T>& job, const Span& span) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t depth = std::max<int64_t>(1, span.cut.padded());
  const Strips strips(job.n, kWidth, kStripColumns / kWidth);
  each_shared_part(job.m, depth, kRows, [&](int64_t first, int64_t end) {
    Scratch<T> a(round_up(end - first, kRows) * depth);
    parallel_ranges(end - first, kStripRows, [&](int64_t from, int64_t to) {
      pack_a(job, span, first + from, to - from, a.data() + from * depth);
    });
    parallel_for(strips.count, [&](int64_t strip) {
      const int64_t column = strips.begin(strip);
      const int64_t width = strips.begin(strip + 1) - column;
      Scratch<T> b(strips.largest() * depth);
      pack_b(job, span, column, width, b.data());
      for (int64_t row = first; row < end; row += kTileRows) {
        multiply_tile(job, span, row, column, std::min(kTileRows, end - row), width,
                      a.data() + (row - first) * depth, b.data());
      }
    });
  });
}

/// Panels of B are shared, strips of rows pack their own of A.
template <class T>
void strips_of_rows(const Job<T>& job, const Span& span) {
  constexpr int64_t kWidth = columns<T>();
  const int64_t depth = std::max<int64_t>(1, span.cut.padded());
  const Strips strips(job.m, kRows, kStripRows / kRows);
  each_shared_part(job.n, depth, kWidth, [&](int64_t first, int64_t end) {
    Scratch<T> b(round_up(end - first, kWidth) * depth);
    parallel_ranges(end - first, kStripColumns, [&](int64_t from, int64_t to) {
      pack_b(job, span, first + from, to - from, b.data() + from * depth);
    });
    parallel_for(strips.count, [&](int64_t strip) {
      const int64_t row = strips.begin(strip);
      const int64_t rows = strips.begin(strip + 1) - row;
      Scratch<T> a(strips.largest() * depth);
      pack_a(job, span, row, rows, a.data());
      for (int64_t column = first; column < end; column += kTileColumns) {
        multiply_tile(job, span, row, column, rows, std::min(kTileColumns, end - column), a.data(),
                      b.data() + (column - first) * depth);
      }
    });
  });
}

template <class T>
void many_rows(const Job<T>& job) {
  // Sums wait in C from one block to the next, so C must be of their type.
  const Cut cut(job.k, job.direct() ? 1 : job.k + 1);
  for (int64_t index = 0; index < cut.spans; ++index) {
    if (job.m <= job.n) {
      strips_of_columns(job, Span(cut, index));
    } else {
      strips_of_rows(job, Span(cut, index));
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

namespace {

int64_t bytes_of(Element type, int64_t count) {
  if (is_quantized(type)) {
    const BlockSize block = block_size(type);
    return count / block.weights * block.bytes;
  }
  return count * element_size(type);
}

/// The order in which a thread multiplies by its weights. While a model decodes it is the same in
/// every step: between two products, when one thread normalises or attends, the others can fetch
/// the weights that come next.
class WeightOrder {
 public:
  void pass(const void* weights, int64_t bytes) {
    const Piece piece{weights, std::min(bytes, kMostBytes)};
    if (before_ != nullptr) {
      *before_ = piece;
    }
    Entry& entry = entries_[reinterpret_cast<uintptr_t>(weights) / 4096 % kEntries];
    if (entry.weights != weights) {
      entry = {weights, {}};
    }
    before_ = &entry.next;
    prefetch_while_idle(entry.next.data, entry.next.bytes);
  }

 private:
  static constexpr size_t kEntries = 1024;
  static constexpr int64_t kMostBytes = 384 * 1024;  // beside what a thread works with in L2
  struct Piece {
    const void* data = nullptr;
    int64_t bytes = 0;
  };
  struct Entry {
    const void* weights = nullptr;
    Piece next;
  };
  Entry entries_[kEntries];
  Piece* before_ = nullptr;
};

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c,
          Element c_type, int64_t c_stride, bool accumulate, const Epilogue& epilogue) {
  if (m == 0 || n == 0) {
    return;
  }
  constexpr double kSmall = 65536;  // multiplications: about two microseconds
  std::optional<SingleThreadedScope> alone;
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= kSmall) {
    alone.emplace();
  }
  constexpr int64_t kDecoding = 32;  // rows
  if (m <= kDecoding && !inside_parallel()) {
    thread_local WeightOrder order;
    order.pass(b.interleaved != nullptr ? b.interleaved : b.data, bytes_of(b.type, n * k));
  }
  if (is_quantized(b.type)) {
    quantized_gemm(m, n, k, a, b, c, c_type, c_stride, epilogue);
  } else if (c_type == Element::f64) {
    HWY_DYNAMIC_DISPATCH(gemm_f64)(m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue);
  } else {
    HWY_DYNAMIC_DISPATCH(gemm_f32)(m, n, k, a, b, c, c_type, c_stride, accumulate, epilogue);
  }
}

}  // namespace heed::kernels
#endif
