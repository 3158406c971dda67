#include "kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Asks for the row that comes next while this one is computed: from memory, a row would otherwise
/// be fetched only between two computations.
template <class T>
HWY_INLINE void fetch_row(const T* row, size_t n) {
  constexpr size_t kLine = 64 / sizeof(T);
  for (size_t i = 0; i < n; i += kLine) {
    hwy::Prefetch(row + i);
  }
}

/// Rows [begin, end).
template <class T>
void layer_norm_rows(const LayerNorm<T>& norm, int64_t begin, int64_t end) {
  using C = Compute<T>;
  const Tag<T> d;
  const auto n = static_cast<size_t>(norm.n);
  const auto rows = static_cast<size_t>(end - begin);
  T* y = norm.y + begin * norm.n;
  const T* x = norm.x + begin * norm.n;
  C* mean = norm.mean + begin;
  C* scale = norm.scale + begin;
  const T* weight = norm.weight;
  const T* bias = norm.bias;
  const C share = C{1} / static_cast<C>(n);
  for (size_t row = 0; row < rows; ++row, x += n, y += n) {
    mean[row] = share * sum_of(
                            d, n, [](auto, auto v) HWY_ATTR { return v; }, x);
    const auto centre = hn::Set(d, mean[row]);
    const auto square = [centre](auto, auto v) HWY_ATTR {
      const auto difference = hn::Sub(v, centre);
      return hn::Mul(difference, difference);
    };
    fetch_row(x + n, n);
    const C variance = share * sum_of(d, n, square, x);
    scale[row] = C{1} / std::sqrt(variance + static_cast<C>(norm.eps));
    const auto factor = hn::Set(d, scale[row]);
    if (bias != nullptr) {
      map(
          y, n,
          [=](auto, auto v, auto w, auto b)
              HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, centre), factor), w, b); },
          x, weight, bias);
    } else {
      map(
          y, n,
          [=](auto, auto v, auto w)
              HWY_ATTR { return hn::Mul(hn::Mul(hn::Sub(v, centre), factor), w); },
          x, weight);
    }
  }
}

template <class T>
void rms_norm_rows(T* y, Compute<T>* scale, const T* x, const T* weight, double eps, size_t rows,
                   size_t n) {
  using C = Compute<T>;
  const Tag<T> d;
  for (size_t row = 0; row < rows; ++row, x += n, y += n) {
    const C squares = sum_of(
        d, n, [](auto, auto v) HWY_ATTR { return hn::Mul(v, v); }, x);
    fetch_row(x + n, n);
    scale[row] = C{1} / std::sqrt(squares / static_cast<C>(n) + static_cast<C>(eps));
    const auto factor = hn::Set(d, scale[row]);
    map(
        y, n, [=](auto, auto v, auto w) HWY_ATTR { return hn::Mul(hn::Mul(v, factor), w); }, x,
        weight);
  }
}

/// Rows [begin, end) of both norms' gradients. With g = dy·weight and z = (x - mean)·scale:
/// dx = scale (g - mean(g) - z mean(g z)), without the mean(g) where `mean` is null; the tile's
/// parts of dweight = sum dy z and dbias = sum dy go to [n] rows of partial sums.
template <class T>
void norm_grad_rows(const NormGrad<T>& norm, int64_t begin, int64_t end, Compute<T>* dweight,
                    Compute<T>* dbias) {
  using C = Compute<T>;
  const Tag<T> d;
  const auto n = static_cast<size_t>(norm.n);
  const auto rows = static_cast<size_t>(end - begin);
  T* dx = norm.dx + begin * norm.n;
  const T* dy = norm.dy + begin * norm.n;
  const T* x = norm.x + begin * norm.n;
  const T* weight = norm.weight;
  const C* mean = norm.mean == nullptr ? nullptr : norm.mean + begin;
  const C* scale = norm.scale + begin;
  const size_t lanes = hn::Lanes(d);
  std::fill(dweight, dweight + n, C{0});
  if (dbias != nullptr) {
    std::fill(dbias, dbias + n, C{0});
  }
  const C share = C{1} / static_cast<C>(n);
  for (size_t row = 0; row < rows; ++row, x += n, dy += n, dx += n) {
    const auto centre = hn::Set(d, mean == nullptr ? C{0} : mean[row]);
    const auto factor = hn::Set(d, scale[row]);
    auto sum_g = hn::Zero(d);
    auto sum_gz = hn::Zero(d);
    const auto visit = [&](size_t i, auto get, auto put) HWY_ATTR {
      const auto gradient = get(dy + i);
      const auto z = hn::Mul(hn::Sub(get(x + i), centre), factor);
      const auto g = hn::Mul(gradient, get(weight + i));  // zero beyond the row
      sum_g = hn::Add(sum_g, g);
      sum_gz = hn::MulAdd(g, z, sum_gz);
      put(hn::MulAdd(gradient, z, get(dweight + i)), dweight + i);
      if (dbias != nullptr) {
        put(hn::Add(gradient, get(dbias + i)), dbias + i);
      }
    };
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      visit(
          i, [d](const auto* p) HWY_ATTR { return load(d, p); },
          [d](auto v, C* p) HWY_ATTR { store(v, d, p); });
    }
    if (i < n) {
      const size_t rest = n - i;
      visit(
          i, [d, rest](const auto* p) HWY_ATTR { return load_some(d, p, rest); },
          [d, rest](auto v, C* p) HWY_ATTR { store_some(v, d, p, rest); });
    }
    const auto mean_g = hn::Set(d, mean == nullptr ? C{0} : share * sum_lanes(d, sum_g));
    const auto mean_gz = hn::Set(d, share * sum_lanes(d, sum_gz));
    map(
        dx, n,
        [=](auto, auto gradient, auto value, auto w) HWY_ATTR {
          const auto z = hn::Mul(hn::Sub(value, centre), factor);
          const auto g =
              hn::Sub(hn::Mul(gradient, w), mean_g);  // rounded as in the mean: n = 1 gives 0
          return hn::Mul(hn::NegMulAdd(z, mean_gz, g), factor);
        },
        dy, x, weight);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(layer_norm_rows)
HEED_EXPORT(rms_norm_rows)
HEED_EXPORT(norm_grad_rows)

namespace {

constexpr int64_t kRowsOfGradient = 32;  // rows of one partial sum of dweight and dbias

int64_t gradient_tiles(int64_t rows) { return (rows + kRowsOfGradient - 1) / kRowsOfGradient; }

}  // namespace

int64_t norm_grad_scratch(int64_t rows, int64_t n) {
  const int64_t tiles = gradient_tiles(rows);
  return 2 * tiles * n + sum_axis_scratch(1, tiles, n);
}

template <class T>
void layer_norm(const LayerNorm<T>& norm) {
  parallel_ranges(norm.rows, rows_per_tile(norm.n), [&](int64_t begin, int64_t end) {
    HEED_CALL(layer_norm_rows, T)(norm, begin, end);
  });
}

template <class T>
void norm_grad(const NormGrad<T>& norm) {
  const int64_t n = norm.n;
  const int64_t tiles = gradient_tiles(norm.rows);
  Compute<T>* weight_parts = norm.scratch;
  Compute<T>* bias_parts = weight_parts + tiles * n;
  Compute<T>* rest = bias_parts + tiles * n;
  parallel_ranges(norm.rows, kRowsOfGradient, [&](int64_t begin, int64_t end) {
    const int64_t part = begin / kRowsOfGradient * n;
    HEED_CALL(norm_grad_rows, T)
    (norm, begin, end, weight_parts + part, norm.dbias == nullptr ? nullptr : bias_parts + part);
  });
  if (norm.dweight != nullptr) {
    sum_axis(norm.dweight, weight_parts, 1, tiles, n, 1.0, rest);
  }
  if (norm.dbias != nullptr) {
    sum_axis(norm.dbias, bias_parts, 1, tiles, n, 1.0, rest);
  }
}

template <class T>
void rms_norm(T* y, Compute<T>* scale, const T* x, const T* weight, double eps, int64_t rows,
              int64_t n) {
  parallel_ranges(rows, rows_per_tile(n), [&](int64_t begin, int64_t end) {
    HEED_CALL(rms_norm_rows, T)
    (y + begin * n, scale + begin, x + begin * n, weight, eps, static_cast<size_t>(end - begin),
     static_cast<size_t>(n));
  });
}

#define HEED_INSTANTIATE(T)                      \
  template void layer_norm(const LayerNorm<T>&); \
  template void norm_grad(const NormGrad<T>&);   \
  template void rms_norm(T*, Compute<T>*, const T*, const T*, double, int64_t, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
