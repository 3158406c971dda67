// Reductions of one row that several kernels share, per target: include inside foreach_target
// files.
// clang-format off
#if defined(HEED_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ROWS_INL_H_
#undef HEED_KERNELS_ROWS_INL_H_
#else
#define HEED_KERNELS_ROWS_INL_H_
#endif
// clang-format on

#include <limits>

#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// The largest element; -infinity for an empty row. Says nothing about NaN.
template <class T>
HWY_INLINE Compute<T> row_max(const T* x, size_t n) {
  const Tag<T> d;
  const auto most = fold(
      d, n, -std::numeric_limits<Compute<T>>::infinity(),
      [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); },
      [](auto, auto v) HWY_ATTR { return v; }, x);
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

/// What to subtract from a row before exp: its maximum, or 0 where nothing is above -infinity (so
/// that no infinity meets itself).
template <class T>
HWY_INLINE Compute<T> row_shift(const T* x, size_t n) {
  const Compute<T> most = row_max(x, n);
  return most == -std::numeric_limits<Compute<T>>::infinity() ? Compute<T>{0} : most;
}

/// y[i] = e^(x[i] - shift); returns their sum. y may be x. Vectors go to two sums in turn up to the
/// end of the row, so that hidden elements behind it, whose exponential is zero, change no bit.
template <class T>
HWY_INLINE Compute<T> row_exp(T* y, const T* x, Compute<T> shift, size_t n) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto offset = hn::Set(d, shift);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e0 = exp_negative(d, hn::Sub(load(d, x + i), offset));
    const auto e1 = exp_negative(d, hn::Sub(load(d, x + i + lanes), offset));
    store(e0, d, y + i);
    store(e1, d, y + i + lanes);
    sum0 = hn::Add(sum0, e0);
    sum1 = hn::Add(sum1, e1);
  }
  for (; i < n; i += lanes) {
    const size_t rest = HWY_MIN(lanes, n - i);
    const auto e = exp_negative(d, hn::Sub(load_upto(d, x + i, rest), offset));
    store_upto(e, d, y + i, rest);
    sum0 = hn::Add(sum0, hn::IfThenElseZero(hn::FirstN(d, rest), e));
    std::swap(sum0, sum1);
  }
  return sum_lanes(d, hn::Add(sum0, sum1));
}

/// Sum of e^(x[i] - shift).
template <class T>
HWY_INLINE Compute<T> row_sum_exp(const T* x, Compute<T> shift, size_t n) {
  const Tag<T> d;
  const auto offset = hn::Set(d, shift);
  return sum_of(
      d, n, [offset](auto tag, auto v) HWY_ATTR { return exp_negative(tag, hn::Sub(v, offset)); },
      x);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ROWS_INL_H_
