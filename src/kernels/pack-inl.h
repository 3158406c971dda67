// Copies a block of a strided matrix into a dense one, converting to the compute type.
// clang-format off
#if defined(HEED_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PACK_INL_H_
#undef HEED_KERNELS_PACK_INL_H_
#else
#define HEED_KERNELS_PACK_INL_H_
#endif
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/gemm.h"
#include "kernels/simd-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// to[r][c] = from[c][r] for a square as wide as a 128-bit vector.
template <class T>
HWY_INLINE void transpose_square(const T* from, int64_t from_stride, Compute<T>* to,
                                 int64_t to_stride) {
  if constexpr (std::is_same_v<T, double>) {
    const hn::FixedTag<double, 2> d;
    const auto a = hn::LoadU(d, from);
    const auto b = hn::LoadU(d, from + from_stride);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + to_stride);
  } else {
    const hn::FixedTag<float, 4> d;
    const hn::FixedTag<double, 2> pairs;
    const auto a = load(d, from);
    const auto b = load(d, from + from_stride);
    const auto e = load(d, from + 2 * from_stride);
    const auto f = load(d, from + 3 * from_stride);
    const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
    const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
    const auto ef_low = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
    const auto ef_high = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ef_low)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ef_low)), d, to + to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ef_high)), d, to + 2 * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ef_high)), d, to + 3 * to_stride);
  }
}

constexpr int64_t kTransposePrefetch =
    64;  // elements of each row that is transposed, fetched early

/// As many whole cache lines of up to 16 rows of floats as there are, transposed at once:
/// [rows][to_stride], of which the first `columns` are defined. Returns the rows that are done.
inline int64_t pack_lines(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                          float* to, int64_t to_stride) {
  const hn::ScalableTag<float> d;
  if constexpr (hn::MaxLanes(d) != 16) {
    return 0;
  } else {
    constexpr int64_t kSide = 16;
    if (columns < kSide / 2 || to_stride > kSide) {
      return 0;
    }
    const uint8_t* row[kSide];
    for (int64_t c = 0; c < kSide; ++c) {  // past the end the last row again
      row[c] = reinterpret_cast<const uint8_t*>(from + std::min(c, columns - 1) * from_stride);
    }
    int64_t r = 0;
    for (; r + kSide <= rows; r += kSide) {
      for (int64_t c = 0; c < columns; ++c) {
        hwy::Prefetch(from + c * from_stride + r + kTransposePrefetch);
      }
      hn::Vec<decltype(d)> value[kSide];
      load_lines(d, row, r * 4, value);
      // What a store writes beyond its columns, the next one writes over.
      for (int64_t i = 0; i + 1 < kSide; ++i) {
        hn::StoreU(value[i], d, to + (r + i) * to_stride);
      }
      store_upto(value[kSide - 1], d, to + (r + kSide - 1) * to_stride,
                 static_cast<size_t>(columns));
    }
    return r;
  }
}

template <class T>
void pack_transposed(const T* from, int64_t from_stride, int64_t rows, int64_t columns,
                     Compute<T>* to, int64_t to_stride) {
  constexpr int64_t kSide = std::is_same_v<T, double> ? 2 : 4;
  int64_t done = 0;
  if constexpr (std::is_same_v<T, float>) {
    done = pack_lines(from, from_stride, rows, columns, to, to_stride);
  }
  for (int64_t c = 0; c < columns; c += kSide) {
    const int64_t width = std::min(kSide, columns - c);
    int64_t r = done;
    for (; width == kSide && r + kSide <= rows; r += kSide) {
      const T* square = from + c * from_stride + r;
      for (int64_t i = 0; i < kSide; ++i) {
        hwy::Prefetch(square + i * from_stride + kTransposePrefetch);
      }
      transpose_square(square, from_stride, to + r * to_stride + c, to_stride);
    }
    for (; r < rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        to[r * to_stride + c + i] = widen(from[(c + i) * from_stride + r]);
      }
    }
  }
}

template <class T>
void pack_typed(const T* from, int64_t row_stride, int64_t column_stride, int64_t rows,
                int64_t columns, Compute<T>* to, int64_t to_stride) {
  if (column_stride == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      map(
          to + r * to_stride, static_cast<size_t>(columns), [](auto, auto x) HWY_ATTR { return x; },
          from + r * row_stride);
    }
  } else if (row_stride == 1) {
    pack_transposed(from, column_stride, rows, columns, to, to_stride);
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        to[r * to_stride + c] = widen(from[r * row_stride + c * column_stride]);
      }
    }
  }
}

/// Calls fn with the matrix' data in its own floating type, from (row, column) on.
template <class T, class Fn>
void with_data(const Matrix& matrix, int64_t row, int64_t column, Fn&& fn) {
  const int64_t offset = row * matrix.row_stride + column * matrix.column_stride;
  if constexpr (std::is_same_v<T, double>) {
    fn(static_cast<const double*>(matrix.data) + offset);
  } else {
    switch (matrix.type) {
      case Element::bf16:
        fn(static_cast<const BFloat16*>(matrix.data) + offset);
        break;
      case Element::f16:
        fn(static_cast<const Half*>(matrix.data) + offset);
        break;
      default:
        fn(static_cast<const float*>(matrix.data) + offset);
    }
  }
}

/// to[r][c] = matrix[row + r][column + c].
template <class T>
void pack(const Matrix& matrix, int64_t row, int64_t column, int64_t rows, int64_t columns, T* to,
          int64_t to_stride) {
  with_data<T>(matrix, row, column, [&](const auto* from) {
    pack_typed(from, matrix.row_stride, matrix.column_stride, rows, columns, to, to_stride);
  });
}

/// Panels of `width` columns each, [rows][width], `stride` elements apart.
template <class T>
struct Panels {
  T* data;
  int64_t width;
  int64_t stride;
};

/// The same into panels. Contiguous columns go row by row into all of them: a cache line that two
/// panels share is fetched once, and rows far apart are asked for early.
template <class T>
void pack_panels(const Matrix& matrix, int64_t row, int64_t column, int64_t rows, int64_t columns,
                 const Panels<T>& panels) {
  T* to = panels.data;
  const int64_t panel = panels.width;
  const int64_t to_stride = panels.stride;
  if (matrix.column_stride != 1) {
    for (int64_t c = 0; c < columns; c += panel) {
      pack(matrix, row, column + c, rows, std::min(panel, columns - c), to, panel);
      to += to_stride;
    }
    return;
  }
  constexpr int64_t kAhead = 16;  // rows
  with_data<T>(matrix, row, column, [&](const auto* from) {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(*from));
    for (int64_t r = 0; r < rows; ++r, from += matrix.row_stride) {
      for (int64_t c = 0; c < columns; c += kLine) {
        fetch_later(from + kAhead * matrix.row_stride + c);
      }
      T* into = to + r * panel;
      for (int64_t c = 0; c < columns; c += panel, into += to_stride) {
        map(
            into, static_cast<size_t>(std::min(panel, columns - c)),
            [](auto, auto x) HWY_ATTR { return x; }, from + c);
      }
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_PACK_INL_H_
