#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// f16 and bf16 keep the exponentials of a row in f32 until they are scaled, so that every result
/// is rounded once.
template <class T>
void softmax_rows(T* y, const T* x, size_t rows, size_t n, Compute<T>* scratch) {
  const Tag<T> d;
  for (size_t row = 0; row < rows; ++row, x += n, y += n) {
    const Compute<T> shift = row_shift(x, n);
    Compute<T>* weights = scratch;
    if constexpr (std::is_same_v<T, Compute<T>>) {
      weights = y;
      const Compute<T> sum = row_exp(y, x, shift, n);
      const auto scale = hn::Set(d, sum == 0 ? Compute<T>{0} : 1 / sum);
      map(
          y, n, [scale](auto, auto v) HWY_ATTR { return hn::Mul(v, scale); }, weights);
    } else {
      map(
          weights, n, [](auto, auto v) HWY_ATTR { return v; }, x);
      const Compute<T> sum = row_exp(weights, weights, shift, n);
      const auto scale = hn::Set(d, sum == 0 ? Compute<T>{0} : 1 / sum);
      map(
          y, n, [scale](auto, auto v) HWY_ATTR { return hn::Mul(v, scale); }, weights);
    }
  }
}

template <class T>
void softmax_grad_rows(T* dx, const T* dy, const T* y, size_t rows, size_t n) {
  const Tag<T> d;
  for (size_t row = 0; row < rows; ++row, dx += n, dy += n, y += n) {
    const auto product = [](auto, auto a, auto b) HWY_ATTR { return hn::Mul(a, b); };
    const auto dot = hn::Set(d, sum_of(d, n, product, dy, y));
    map(
        dx, n, [dot](auto, auto g, auto p) HWY_ATTR { return hn::Mul(p, hn::Sub(g, dot)); }, dy, y);
  }
}

template <class T>
void log_softmax_rows(T* y, const T* x, size_t rows, size_t n) {
  const Tag<T> d;
  for (size_t row = 0; row < rows; ++row, x += n, y += n) {
    const Compute<T> shift = row_shift(x, n);
    const auto lse = hn::Set(d, shift + std::log(row_sum_exp(x, shift, n)));
    const auto none = hn::Set(d, -std::numeric_limits<Compute<T>>::infinity());
    map(
        y, n,
        [lse, none](auto, auto v)
            HWY_ATTR { return hn::IfThenElse(hn::Eq(v, none), none, hn::Sub(v, lse)); },
        x);
  }
}

template <class T>
void log_softmax_grad_rows(T* dx, const T* dy, const T* y, size_t rows, size_t n) {
  const Tag<T> d;
  for (size_t row = 0; row < rows; ++row, dx += n, dy += n, y += n) {
    const auto sum = hn::Set(d, sum_of(
                                    d, n, [](auto, auto v) HWY_ATTR { return v; }, dy));
    map(
        dx, n,
        [sum](auto tag, auto g, auto v)
            HWY_ATTR { return hn::NegMulAdd(exp_negative(tag, v), sum, g); },
        dy, y);
  }
}

double log_sum_exp_row(const float* x, size_t n) {
  constexpr size_t kRun = 4096;  // terms of one sum in f32; the runs are added in f64
  const float shift = row_shift(x, n);
  double sum = 0.0;
  for (size_t i = 0; i < n; i += kRun) {
    sum += static_cast<double>(row_sum_exp(x + i, shift, HWY_MIN(kRun, n - i)));
  }
  return static_cast<double>(shift) + std::log(sum);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(softmax_rows)
HEED_EXPORT(softmax_grad_rows)
HEED_EXPORT(log_softmax_rows)
HEED_EXPORT(log_softmax_grad_rows)
HWY_EXPORT(log_sum_exp_row);

template <class T>
void softmax(T* y, const T* x, int64_t rows, int64_t n) {
  parallel_ranges(rows, rows_per_tile(n), [&](int64_t begin, int64_t end) {
    std::vector<Compute<T>> scratch(std::is_same_v<T, Compute<T>> ? 0 : static_cast<size_t>(n));
    HEED_CALL(softmax_rows, T)
    (y + begin * n, x + begin * n, static_cast<size_t>(end - begin), static_cast<size_t>(n),
     scratch.data());
  });
}

template <class T>
void softmax_grad(T* dx, const T* dy, const T* y, int64_t rows, int64_t n) {
  parallel_ranges(rows, rows_per_tile(n), [&](int64_t begin, int64_t end) {
    HEED_CALL(softmax_grad_rows, T)
    (dx + begin * n, dy + begin * n, y + begin * n, static_cast<size_t>(end - begin),
     static_cast<size_t>(n));
  });
}

template <class T>
void log_softmax(T* y, const T* x, int64_t rows, int64_t n) {
  parallel_ranges(rows, rows_per_tile(n), [&](int64_t begin, int64_t end) {
    HEED_CALL(log_softmax_rows, T)
    (y + begin * n, x + begin * n, static_cast<size_t>(end - begin), static_cast<size_t>(n));
  });
}

template <class T>
void log_softmax_grad(T* dx, const T* dy, const T* y, int64_t rows, int64_t n) {
  parallel_ranges(rows, rows_per_tile(n), [&](int64_t begin, int64_t end) {
    HEED_CALL(log_softmax_grad_rows, T)
    (dx + begin * n, dy + begin * n, y + begin * n, static_cast<size_t>(end - begin),
     static_cast<size_t>(n));
  });
}

double log_sum_exp(const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(log_sum_exp_row)(x, static_cast<size_t>(n));
}

#define HEED_INSTANTIATE(T)                                             \
  template void softmax(T*, const T*, int64_t, int64_t);                \
  template void softmax_grad(T*, const T*, const T*, int64_t, int64_t); \
  template void log_softmax(T*, const T*, int64_t, int64_t);            \
  template void log_softmax_grad(T*, const T*, const T*, int64_t, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
