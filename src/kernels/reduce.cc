#include "kernels/reduce.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
Compute<T> sum_range(const T* x, size_t count) {
  return sum_of(
      Tag<T>(), count, [](auto, auto v) HWY_ATTR { return v; }, x);
}

template <class T>
Compute<T> sum_of_squares_range(const T* x, size_t count) {
  return sum_of(
      Tag<T>(), count, [](auto, auto v) HWY_ATTR { return hn::Mul(v, v); }, x);
}

template <class T>
Compute<T> squared_differences_range(const T* a, const T* b, size_t count) {
  return sum_of(
      Tag<T>(), count,
      [](auto, auto u, auto v) HWY_ATTR {
        const auto difference = hn::Sub(u, v);
        return hn::Mul(difference, difference);
      },
      a, b);
}

/// into[j] (+)= x[row][j] for `rows` rows that lie `stride` apart.
template <class T>
void sum_columns_range(Compute<T>* into, const T* x, size_t rows, size_t stride, size_t columns) {
  std::fill(into, into + columns, Compute<T>{0});
  for (size_t row = 0; row < rows; ++row) {
    map(
        into, columns, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, into,
        x + row * stride);
  }
}

/// y[j] = scale * (sum over `tiles` of partial[tile][j]).
template <class T>
void sum_partials_range(T* y, const Compute<T>* partial, size_t tiles, size_t stride,
                        size_t columns, double scale) {
  const Tag<T> d;
  const auto factor = hn::Set(d, static_cast<Compute<T>>(scale));
  const size_t lanes = hn::Lanes(d);
  for (size_t j = 0; j < columns; j += lanes) {
    const size_t rest = std::min(lanes, columns - j);
    auto sum = hn::Zero(d);
    for (size_t tile = 0; tile < tiles; ++tile) {
      sum = hn::Add(sum, load_upto(d, partial + tile * stride + j, rest));
    }
    store_upto(hn::Mul(sum, factor), d, y + j, rest);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(sum_range)
HEED_EXPORT(sum_of_squares_range)
HEED_EXPORT(squared_differences_range)
HEED_EXPORT(sum_columns_range)
HEED_EXPORT(sum_partials_range)

namespace {

constexpr int64_t kSumTile = 16384;  // elements of one partial sum
constexpr int64_t kRows = 64;        // rows of one partial sum of columns
constexpr int64_t kColumns = 1024;   // columns that one tile sums

/// Adds up fn(begin, end) over tiles, in their order.
template <class Fn>
double sum_tiles(int64_t count, Fn&& fn) {
  std::vector<double> partial(static_cast<size_t>((count + kSumTile - 1) / kSumTile));
  parallel_ranges(count, kSumTile, [&](int64_t begin, int64_t end) {
    partial[static_cast<size_t>(begin / kSumTile)] = static_cast<double>(fn(begin, end));
  });
  double sum = 0.0;
  for (const double value : partial) {
    sum += value;
  }
  return sum;
}

}  // namespace

template <class T>
double sum_all(const T* x, int64_t count) {
  return sum_tiles(count, [&](int64_t begin, int64_t end) {
    return HEED_CALL(sum_range, T)(x + begin, static_cast<size_t>(end - begin));
  });
}

template <class T>
double sum_of_squares(const T* x, int64_t count) {
  return sum_tiles(count, [&](int64_t begin, int64_t end) {
    return HEED_CALL(sum_of_squares_range, T)(x + begin, static_cast<size_t>(end - begin));
  });
}

template <class T>
double sum_of_squared_differences(const T* a, const T* b, int64_t count) {
  return sum_tiles(count, [&](int64_t begin, int64_t end) {
    return HEED_CALL(squared_differences_range, T)(a + begin, b + begin,
                                                   static_cast<size_t>(end - begin));
  });
}

int64_t sum_axis_scratch(int64_t outer, int64_t n, int64_t inner) {
  return inner == 1 ? 0 : outer * std::max<int64_t>(1, (n + kRows - 1) / kRows) * inner;
}

template <class T, class X>
void sum_axis(T* y, const X* x, int64_t outer, int64_t n, int64_t inner, double scale,
              Compute<T>* scratch) {
  if (inner == 1) {
    const int64_t grain = std::max<int64_t>(1, kSumTile / std::max<int64_t>(n, 1));
    parallel_ranges(outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        double sum = 0.0;
        for (int64_t at = 0; at < n; at += kSumTile) {
          sum += static_cast<double>(HEED_CALL(sum_range, X)(
              x + row * n + at, static_cast<size_t>(std::min(kSumTile, n - at))));
        }
        y[row] = narrow<T>(sum * scale);
      }
    });
    return;
  }
  // Partial sums of kRows rows each, then over those; the cut depends on the shape alone.
  const int64_t row_tiles = std::max<int64_t>(1, (n + kRows - 1) / kRows);
  const int64_t column_tiles = (inner + kColumns - 1) / kColumns;
  parallel_for(outer * row_tiles * column_tiles, [&](int64_t tile) {
    const int64_t column = tile % column_tiles * kColumns;
    const int64_t row = tile / column_tiles % row_tiles * kRows;
    const int64_t o = tile / column_tiles / row_tiles;
    HEED_CALL(sum_columns_range, X)
    (scratch + (tile / column_tiles) * inner + column, x + (o * n + row) * inner + column,
     static_cast<size_t>(std::min(kRows, n - row)), static_cast<size_t>(inner),
     static_cast<size_t>(std::min(kColumns, inner - column)));
  });
  parallel_for(outer * column_tiles, [&](int64_t tile) {
    const int64_t column = tile % column_tiles * kColumns;
    const int64_t o = tile / column_tiles;
    HEED_CALL(sum_partials_range, T)
    (y + o * inner + column, scratch + o * row_tiles * inner + column,
     static_cast<size_t>(row_tiles), static_cast<size_t>(inner),
     static_cast<size_t>(std::min(kColumns, inner - column)), scale);
  });
}

template <class T>
void max_axis(T* largest, int64_t* index, const T* x, int64_t outer, int64_t n, int64_t inner) {
  const int64_t grain = std::max<int64_t>(1, kSumTile / std::max<int64_t>(n, 1));
  parallel_ranges(outer * inner, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = x + i / inner * n * inner + i % inner;
      Compute<T> best = widen(from[0]);
      int64_t at = 0;
      for (int64_t k = 1; k < n && best == best; ++k) {
        const Compute<T> value = widen(from[k * inner]);
        if (value > best || value != value) {
          best = value;
          at = k;
        }
      }
      largest[i] = from[at * inner];
      index[i] = at;
    }
  });
}

#define HEED_INSTANTIATE(T)                                                             \
  template double sum_all(const T*, int64_t);                                           \
  template double sum_of_squares(const T*, int64_t);                                    \
  template double sum_of_squared_differences(const T*, const T*, int64_t);              \
  template void sum_axis(T*, const T*, int64_t, int64_t, int64_t, double, Compute<T>*); \
  template void max_axis(T*, int64_t*, const T*, int64_t, int64_t, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE
template void sum_axis(Half*, const float*, int64_t, int64_t, int64_t, double, float*);
template void sum_axis(BFloat16*, const float*, int64_t, int64_t, int64_t, double, float*);
template void sum_axis(float*, const Half*, int64_t, int64_t, int64_t, double, float*);
template void sum_axis(float*, const BFloat16*, int64_t, int64_t, int64_t, double, float*);

}  // namespace heed::kernels
#endif
