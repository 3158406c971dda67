#include "kernels/activation.h"

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/activation-inl.h"
#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void unary_rows(Unary kind, T* y, int64_t y_stride, const T* x, int64_t x_stride, int64_t rows,
                size_t count) {
  with_unary(kind, [=](auto f) HWY_ATTR {
    for (int64_t row = 0; row < rows; ++row) {
      map(
          y + row * y_stride, count, [f](auto d, auto v) HWY_ATTR { return f.value(d, v); },
          x + row * x_stride);
    }
  });
}

template <class T>
void unary_grad_range(Unary kind, T* dx, const T* dy, const T* saved, size_t count) {
  with_unary(kind, [=](auto f) HWY_ATTR {
    map(
        dx, count, [f](auto d, auto g, auto v) HWY_ATTR { return hn::Mul(g, f.slope(d, v)); }, dy,
        saved);
  });
}

template <class T>
void gated_range(Unary kind, T* y, const T* gate, const T* up, size_t count) {
  with_unary(kind, [=](auto f) HWY_ATTR {
    map(
        y, count, [f](auto d, auto g, auto u) HWY_ATTR { return hn::Mul(f.value(d, g), u); }, gate,
        up);
  });
}

template <class T>
void gated_grad_range(Unary kind, T* dgate, T* dup, const T* dy, const T* gate, const T* up,
                      size_t count) {
  with_unary(kind, [=](auto f) HWY_ATTR {
    const Tag<T> d;
    const size_t lanes = hn::Lanes(d);
    const auto step = [f, d](auto g, auto u, auto gradient, auto& for_gate, auto& for_up) HWY_ATTR {
      const auto value = f.value(d, g);
      const auto slope = f.slope(d, grad_reads_result(f.kKind) ? value : g);
      for_gate = hn::Mul(hn::Mul(gradient, u), slope);
      for_up = hn::Mul(gradient, value);
    };
    auto to_gate = hn::Zero(d);
    auto to_up = hn::Zero(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      step(load(d, gate + i), load(d, up + i), load(d, dy + i), to_gate, to_up);
      store(to_gate, d, dgate + i);
      store(to_up, d, dup + i);
    }
    if (i < count) {
      const size_t rest = count - i;
      step(load_some(d, gate + i, rest), load_some(d, up + i, rest), load_some(d, dy + i, rest),
           to_gate, to_up);
      store_some(to_gate, d, dgate + i, rest);
      store_some(to_up, d, dup + i, rest);
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(unary_rows)
HEED_EXPORT(unary_grad_range)
HEED_EXPORT(gated_range)
HEED_EXPORT(gated_grad_range)

namespace {
constexpr int64_t kTile = 8192;  // elements
}

template <class T>
void unary_tile(Unary kind, T* y, int64_t y_stride, const T* x, int64_t x_stride, int64_t rows,
                int64_t count) {
  HEED_CALL(unary_rows, T)(kind, y, y_stride, x, x_stride, rows, static_cast<size_t>(count));
}

template <class T>
void unary(Unary kind, T* y, const T* x, int64_t count) {
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    unary_tile(kind, y + begin, 0, x + begin, 0, 1, end - begin);
  });
}

template <class T>
void unary_grad(Unary kind, T* dx, const T* dy, const T* saved, int64_t count) {
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    HEED_CALL(unary_grad_range, T)
    (kind, dx + begin, dy + begin, saved + begin, static_cast<size_t>(end - begin));
  });
}

template <class T>
void gated(Unary kind, T* y, const T* gate, const T* up, int64_t count) {
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    HEED_CALL(gated_range, T)
    (kind, y + begin, gate + begin, up + begin, static_cast<size_t>(end - begin));
  });
}

template <class T>
void gated_grad(Unary kind, T* dgate, T* dup, const T* dy, const T* gate, const T* up,
                int64_t count) {
  parallel_ranges(count, kTile, [&](int64_t begin, int64_t end) {
    HEED_CALL(gated_grad_range, T)
    (kind, dgate + begin, dup + begin, dy + begin, gate + begin, up + begin,
     static_cast<size_t>(end - begin));
  });
}

#define HEED_INSTANTIATE(T)                                                          \
  template void unary(Unary, T*, const T*, int64_t);                                 \
  template void unary_tile(Unary, T*, int64_t, const T*, int64_t, int64_t, int64_t); \
  template void unary_grad(Unary, T*, const T*, const T*, int64_t);                  \
  template void gated(Unary, T*, const T*, const T*, int64_t);                       \
  template void gated_grad(Unary, T*, T*, const T*, const T*, const T*, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
