// The product with many rows: panels of both operands, strips of C that threads claim. Per target:
// include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_TILES_INL_H_
#undef HEED_KERNELS_GEMM_TILES_INL_H_
#else
#define HEED_KERNELS_GEMM_TILES_INL_H_
#endif
// clang-format on

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm_kernel-inl.h"
#include "kernels/packed_weights.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// The steps along k in equal blocks, and these in equal spans of at most `most`.
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

/// What is packed of an operand: steps [step, step + depth) of its rows (of A) or columns (of B)
/// from `first` on.
struct PackedPart {
  int64_t step;
  int64_t depth;
  int64_t first;
  int64_t count;
};

/// The blocks of k that are packed together.
struct Span {
  Span(const Cut& of, int64_t index)
      : cut(of), first(index * of.span_blocks), end(std::min(first + of.span_blocks, of.blocks)) {}
  /// Where a block's piece of a panel starts, in steps of k.
  int64_t place(int64_t block) const { return (block - first) * cut.depth; }
  /// A block of rows or columns.
  PackedPart part(int64_t block, int64_t from, int64_t count) const {
    return {block * cut.depth, cut.depth_of(block), from, count};
  }

  const Cut& cut;
  int64_t first, end;
};

/// Panels in the type of the sums, a step of the panel for each k. A format says what a panel holds
/// and fills panels `stride` apart: [depth][kRows] of A, [depth][columns()] of B.
template <class T>
struct Plain {
  using Sum = T;
  using Panel = T;
  static int64_t steps(int64_t k) { return k; }

  static void pack_a(const Job<T>& job, const PackedPart& part, T* panels, int64_t stride) {
    const Matrix transposed{job.a.data, job.a.type, job.a.column_stride, job.a.row_stride};
    pack_panels(transposed, part.step, part.first, part.depth, part.count,
                Panels<T>{panels, kRows, stride});
  }
  static void pack_b(const Job<T>& job, const PackedPart& part, T* panels, int64_t stride) {
    constexpr int64_t kWidth = columns<T>();
    if (job.b.column_stride == 1 && part.count % kWidth == 0) {
      pack_panels(job.b, part.step, part.first, part.depth, part.count,
                  Panels<T>{panels, kWidth, stride});
      return;
    }
    for (int64_t j = 0; j < part.count; j += kWidth, panels += stride) {
      HWY_NAMESPACE::pack_b(job, part.first + j, std::min(kWidth, part.count - j), part.step,
                            part.depth, panels);
    }
  }
};

/// Panels of A, transposed, from `row` on.
template <class F>
void pack_rows(const Job<typename F::Sum>& job, const Span& span, int64_t row, int64_t rows,
               typename F::Panel* panels) {
  for (int64_t block = span.first; block < span.end; ++block) {
    F::pack_a(job, span.part(block, row, rows), panels + span.place(block) * kRows,
              span.cut.padded() * kRows);
  }
}

/// Panels of B from `column` on.
template <class F>
void pack_columns(const Job<typename F::Sum>& job, const Span& span, int64_t column, int64_t width,
                  typename F::Panel* panels) {
  constexpr int64_t kWidth = columns<typename F::Sum>();
  for (int64_t block = span.first; block < span.end; ++block) {
    F::pack_b(job, span.part(block, column, width), panels + span.place(block) * kWidth,
              span.cut.padded() * kWidth);
  }
}

/// Panels of B: those of one strip, or all of a weight's (kernels/packed_weights.h). A panel is
/// [steps][width] and holds as many columns as it is wide.
template <class P>
struct ColumnPanels {
  const P* data;
  int64_t panel;  ///< elements from one panel to the next
  int64_t width;

  const P* at(int64_t column) const { return data + column / width * panel + column % width; }
  ColumnPanels from(int64_t elements) const { return {data + elements, panel, width}; }
};

/// A rectangle of C.
struct Area {
  int64_t row;
  int64_t column;
  int64_t rows;
  int64_t width;
};

/// A tile of C and where its sums gather: in C itself, or where C is of another type in a buffer of
/// the tile, or of one piece where no sum waits for another block of k.
template <class T>
struct Tile {
  Tile(const Job<T>& of, const Area& area, int64_t panel_rows, bool one_block)
      : job(of),
        row(area.row),
        column(area.column),
        rows(area.rows),
        width(area.width),
        height(panel_rows),
        by_piece(!of.direct() && one_block),
        stride(of.direct() ? of.c_stride
               : by_piece  ? columns<T>()
                           : kTileColumns),
        buffer(of.direct() ? 1 : (by_piece ? int64_t{kRows} : rows) * stride),
        sums(sums_of(of, row, column, buffer.data())) {}

  /// One block of k; panels of A lie a_panel apart. The `last` block finishes each piece of C while
  /// it is in L1.
  template <class Panel, class P>
  void multiply(int64_t block, int64_t depth, bool last, const P* a_panels, int64_t a_panel,
                const ColumnPanels<P>& b_panels) const {
    constexpr int64_t kWidth = columns<T>();
    const int64_t passes = (rows + height - 1) / height;  // over the same panel of B
    for (int64_t j = 0; j < width; j += kWidth) {
      const P* b = b_panels.at(j);
      // Each pass fetches its part of what lies behind the panel.
      const auto bytes = b_panels.width * static_cast<int64_t>(sizeof(P)) / passes;
      const char* far = reinterpret_cast<const char*>(b + depth * b_panels.width);
      for (int64_t i = 0; i < rows; i += height, far += bytes * depth) {
        const P* a = a_panels + i / height * a_panel;
        const int64_t count = std::min(height, rows - i);
        const int64_t piece = std::min(kWidth, width - j);
        T* to = by_piece ? sums : sums + i * stride + j;
        Fetched<P> fetch{i + height < rows ? a + a_panel : a_panels, far, bytes, {}, {}};
        if (last) {
          fetch_ends(row + i, column + j, fetch);
        }
        multiply_piece<Panel>(count, piece,
                              Piece<P, P, T>{.a = a,
                                             .b = b,
                                             .b_stride = b_panels.width,
                                             .depth = depth,
                                             .c = to,
                                             .c_stride = stride,
                                             .first = block == 0 && !job.accumulate},
                              fetch);
        if (last) {
          finish(job, row + i, column + j, count, piece, to, stride);
        }
      }
    }
  }

  const Job<T>& job;
  int64_t row, column, rows, width, height;
  bool by_piece;
  int64_t stride;
  Scratch<T> buffer;
  T* sums;

 private:
  template <class P>
  void fetch_ends(int64_t at_row, int64_t at_column, Fetched<P>& fetch) const {
    const int64_t size = element_size(job.c_type);
    const Epilogue& e = job.epilogue;
    if (!job.direct()) {
      fetch.result = {static_cast<const char*>(job.c) + (at_row * job.c_stride + at_column) * size,
                      job.c_stride * size};
    }
    if (e.residual != nullptr) {
      fetch.residual = {
          static_cast<const char*>(e.residual) + (at_row * e.residual_stride + at_column) * size,
          e.residual_stride * size};
    }
  }
};

/// One tile of C from the panels of its rows, `height` in each, and columns.
template <class Panel = Transposed, class T, class P>
void multiply_tile(const Job<T>& job, const Span& span, const Area& area, const P* a_panels,
                   const ColumnPanels<P>& b_panels, int64_t height = kRows) {
  const Tile<T> tile(job, area, height, span.cut.blocks == 1);
  for (int64_t block = span.first; block < span.end; ++block) {
    tile.template multiply<Panel>(block, span.cut.depth_of(block), block + 1 == span.cut.blocks,
                                  a_panels + span.place(block) * kRows, span.cut.padded() * kRows,
                                  b_panels.from(span.place(block) * b_panels.width));
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
template <class F>
void strips_of_columns(const Job<typename F::Sum>& job, const Span& span) {
  using Panel = typename F::Panel;
  constexpr int64_t kWidth = columns<typename F::Sum>();
  const int64_t depth = std::max<int64_t>(1, span.cut.padded());
  const Strips strips(job.n, kWidth, kStripColumns / kWidth);
  each_shared_part(job.m, depth, kRows, [&](int64_t first, int64_t end) {
    Scratch<Panel> a(round_up(end - first, kRows) * depth);
    parallel_ranges(end - first, kStripRows, [&](int64_t from, int64_t to) {
      pack_rows<F>(job, span, first + from, to - from, a.data() + from * depth);
    });
    parallel_for(strips.count, [&](int64_t strip) {
      const int64_t column = strips.begin(strip);
      const int64_t width = strips.begin(strip + 1) - column;
      Scratch<Panel> b(strips.largest() * depth);
      pack_columns<F>(job, span, column, width, b.data());
      const ColumnPanels<Panel> panels{b.data(), span.cut.padded() * kWidth, kWidth};
      for (int64_t row = first; row < end; row += kTileRows) {
        multiply_tile(job, span, {row, column, std::min(kTileRows, end - row), width},
                      a.data() + (row - first) * depth, panels);
      }
    });
  });
}

/// Panels of B are shared, strips of rows pack their own of A.
template <class F>
void strips_of_rows(const Job<typename F::Sum>& job, const Span& span) {
  using Panel = typename F::Panel;
  constexpr int64_t kWidth = columns<typename F::Sum>();
  const int64_t depth = std::max<int64_t>(1, span.cut.padded());
  const Strips strips(job.m, kRows, kStripRows / kRows);
  each_shared_part(job.n, depth, kWidth, [&](int64_t first, int64_t end) {
    Scratch<Panel> b(round_up(end - first, kWidth) * depth);
    parallel_ranges(end - first, kStripColumns, [&](int64_t from, int64_t to) {
      pack_columns<F>(job, span, first + from, to - from, b.data() + from * depth);
    });
    parallel_for(strips.count, [&](int64_t strip) {
      const int64_t row = strips.begin(strip);
      const int64_t rows = strips.begin(strip + 1) - row;
      Scratch<Panel> a(strips.largest() * depth);
      pack_rows<F>(job, span, row, rows, a.data());
      for (int64_t column = first; column < end; column += kTileColumns) {
        multiply_tile(job, span, {row, column, rows, std::min(kTileColumns, end - column)},
                      a.data(),
                      ColumnPanels<Panel>{b.data() + (column - first) * depth,
                                          span.cut.padded() * kWidth, kWidth});
      }
    });
  });
}

/// Rows in panels of kRows; few rows in panels of evenly many (16 are 8 and 8, not 12 and 4), so
/// that every pass over the weights takes the same time to fetch its part of those that follow.
struct PackedRows {
  explicit PackedRows(int64_t rows)
      : few(rows <= kTileRows),
        height(few ? (rows + panels_of(rows) - 1) / panels_of(rows) : kRows) {}
  int64_t panels(int64_t rows) const { return (rows + height - 1) / height; }
  int64_t grain() const { return few ? height : kStripRows; }

  bool few;
  int64_t height;

 private:
  static int64_t panels_of(int64_t rows) { return (rows + kRows - 1) / kRows; }
};

/// Strips of columns whose panels were packed beforehand, for any number of rows.
template <class F>
void packed_strips(const Job<typename F::Sum>& job, const Span& span) {
  using Panel = typename F::Panel;
  const int64_t depth = std::max<int64_t>(1, span.cut.padded());
  const ColumnPanels<Panel> all{static_cast<const Panel*>(job.b.interleaved),
                                span.cut.whole * kPackedColumns, kPackedColumns};
  const ColumnPanels<Panel> here = all.from(span.first * span.cut.depth * kPackedColumns);
  const Strips strips(job.n, kPackedColumns, kStripColumns / kPackedColumns);
  const PackedRows cut(job.m);
  constexpr int64_t kEnoughParts = 48;
  each_shared_part(job.m, depth, kRows, [&](int64_t first, int64_t end) {
    Scratch<Panel> a(cut.panels(end - first) * kRows * depth);
    parallel_ranges(end - first, cut.grain(), [&](int64_t from, int64_t to) {
      for (int64_t row = from; row < to; row += cut.height) {
        pack_rows<F>(job, span, first + row, std::min(cut.height, to - row),
                     a.data() + row / cut.height * kRows * depth);
      }
    });
    // With few strips rows are divided too, so that no thread waits long for another's last part.
    const int64_t tiles = (end - first + kTileRows - 1) / kTileRows;
    const int64_t together = std::max<int64_t>(1, tiles * strips.count / kEnoughParts);
    const int64_t parts = (tiles + together - 1) / together;
    parallel_for(strips.count * parts, [&](int64_t task) {
      const int64_t strip = task / parts;
      const int64_t top = first + task % parts * together * kTileRows;
      const int64_t bottom = std::min(end, top + together * kTileRows);
      const int64_t stop = strips.begin(strip + 1);
      const int64_t step = cut.few ? kPackedColumns : stop - strips.begin(strip);
      for (int64_t column = strips.begin(strip); column < stop; column += step) {
        for (int64_t row = top; row < bottom; row += kTileRows) {
          multiply_tile<TransposedStream>(
              job, span,
              {row, column, std::min(kTileRows, end - row), std::min(step, stop - column)},
              a.data() + (row - first) / cut.height * kRows * depth,
              ColumnPanels<Panel>{here.at(column), here.panel, here.width}, cut.height);
        }
      }
    });
  });
}

template <class F>
void many_rows(const Job<typename F::Sum>& job) {
  // Sums wait in C from one block to the next, so C must be of their type.
  // Few rows of A stay in L2 whole, and packed weights are then read in the order in which they
  // lie.
  const int64_t steps = F::steps(job.k);
  const bool whole = !job.direct() || (job.b.interleaved != nullptr && job.m * steps <= kNearRows);
  const Cut cut(steps, whole ? steps + 1 : 1);
  for (int64_t index = 0; index < cut.spans; ++index) {
    if (job.b.interleaved != nullptr) {
      packed_strips<F>(job, Span(cut, index));
    } else if (job.m <= job.n) {
      strips_of_columns<F>(job, Span(cut, index));
    } else {
      strips_of_rows<F>(job, Span(cut, index));
    }
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_TILES_INL_H_
