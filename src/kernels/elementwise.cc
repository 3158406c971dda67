#include "kernels/elementwise.h"

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void add_range(T* into, const T* x, size_t count) {
  map(
      into, count, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, into, x);
}

template <class T>
void scale_shift_range(T* out, const T* x, double scale, double shift, size_t count) {
  const Tag<T> d;
  const auto factor = hn::Set(d, static_cast<Compute<T>>(scale));
  const auto offset = hn::Set(d, static_cast<Compute<T>>(shift));
  map(
      out, count, [=](auto, auto v) HWY_ATTR { return hn::MulAdd(v, factor, offset); }, x);
}

/// One row where each operand is either an array or one repeated element.
template <class T, class Op>
HWY_INLINE void combine(T* out, const T* a, bool a_repeats, const T* b, bool b_repeats,
                        size_t count, Op op) {
  const Tag<T> d;
  if (!a_repeats && !b_repeats) {
    map(
        out, count, [op](auto, auto u, auto v) HWY_ATTR { return op(u, v); }, a, b);
  } else if (a_repeats && b_repeats) {
    const auto value = op(load_some(d, a, 1), load_some(d, b, 1));
    const auto repeated = hn::Set(d, hn::GetLane(value));
    map(
        out, count, [repeated](auto, auto) HWY_ATTR { return repeated; }, out);
  } else if (b_repeats) {
    const auto v = hn::Set(d, hn::GetLane(load_some(d, b, 1)));
    map(
        out, count, [op, v](auto, auto u) HWY_ATTR { return op(u, v); }, a);
  } else {
    const auto u = hn::Set(d, hn::GetLane(load_some(d, a, 1)));
    map(
        out, count, [op, u](auto, auto v) HWY_ATTR { return op(u, v); }, b);
  }
}

template <class T>
void combine_range(Binary op, T* out, const T* a, bool a_repeats, const T* b, bool b_repeats,
                   size_t count) {
  switch (op) {
    case Binary::add:
      combine(out, a, a_repeats, b, b_repeats, count,
              [](auto u, auto v) HWY_ATTR { return hn::Add(u, v); });
      break;
    case Binary::sub:
      combine(out, a, a_repeats, b, b_repeats, count,
              [](auto u, auto v) HWY_ATTR { return hn::Sub(u, v); });
      break;
    case Binary::mul:
      combine(out, a, a_repeats, b, b_repeats, count,
              [](auto u, auto v) HWY_ATTR { return hn::Mul(u, v); });
      break;
    case Binary::div:
      combine(out, a, a_repeats, b, b_repeats, count,
              [](auto u, auto v) HWY_ATTR { return hn::Div(u, v); });
      break;
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(add_range)
HEED_EXPORT(scale_shift_range)
HEED_EXPORT(combine_range)

namespace {
constexpr int64_t kTile = 16384;  // elements: two arrays of f32 fit in L2 with room to spare

/// The next elements of a strided operand, copied together.
template <class T>
const T* packed(const T* x, int64_t step, int64_t begin, int64_t count, T* buffer) {
  if (step == 0 || step == 1) {
    return x + begin * step;
  }
  for (int64_t i = 0; i < count; ++i) {
    buffer[i] = x[(begin + i) * step];
  }
  return buffer;
}
}  // namespace

template <class T>
void add_inplace(T* into, const T* x, int64_t count) {
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    HEED_CALL(add_range, T)(into + begin, x + begin, static_cast<size_t>(end - begin));
  });
}

template <class T>
void scale_shift(T* out, const T* x, double scale, double shift, int64_t count) {
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    HEED_CALL(scale_shift_range, T)
    (out + begin, x + begin, scale, shift, static_cast<size_t>(end - begin));
  });
}

template <class T>
void binary_row(Binary op, T* out, const T* a, int64_t step_a, const T* b, int64_t step_b,
                int64_t count) {
  const auto simple = [](int64_t step) { return step == 0 || step == 1; };
  if (simple(step_a) && simple(step_b)) {
    HEED_CALL(combine_range, T)
    (op, out, a, step_a == 0, b, step_b == 0, static_cast<size_t>(count));
    return;
  }
  constexpr int64_t kPiece = 256;
  T buffer_a[kPiece];
  T buffer_b[kPiece];
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t n = count - begin < kPiece ? count - begin : kPiece;
    HEED_CALL(combine_range, T)
    (op, out + begin, packed(a, step_a, begin, n, buffer_a), step_a == 0,
     packed(b, step_b, begin, n, buffer_b), step_b == 0, static_cast<size_t>(n));
  }
}

#define HEED_INSTANTIATE(T)                                         \
  template void add_inplace(T*, const T*, int64_t);                 \
  template void scale_shift(T*, const T*, double, double, int64_t); \
  template void binary_row(Binary, T*, const T*, int64_t, const T*, int64_t, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
