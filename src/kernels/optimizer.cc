#include "kernels/optimizer.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void adam_update(Compute<T>* master, T* value, Compute<T>* average, Compute<T>* average_square,
                 const T* gradient, const AdamStep& step, size_t count) {
  using C = Compute<T>;
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto set = [d](double v) HWY_ATTR { return hn::Set(d, static_cast<C>(v)); };
  const auto scale = set(step.grad_scale);
  const auto beta2 = set(step.beta2);
  const auto rest1 = set(1.0 - step.beta1);
  const auto rest2 = set(1.0 - step.beta2);
  const auto eps = set(step.eps);
  const auto shrink = set(step.decoupled ? 1.0 - step.lr * step.decay : 1.0);
  const auto decay = set(step.decoupled ? 0.0 : step.decay);
  const auto rate = set(step.lr / step.correction1);
  const auto root = set(1.0 / std::sqrt(step.correction2));
  for (size_t i = 0; i < count; i += lanes) {
    const size_t n = HWY_MIN(lanes, count - i);
    const auto before = load_upto(d, master + i, n);
    const auto g = hn::MulAdd(load_upto(d, gradient + i, n), scale, hn::Mul(before, decay));
    const auto m_before = load_upto(d, average + i, n);
    const auto m = hn::MulAdd(hn::Sub(g, m_before), rest1, m_before);
    const auto v =
        hn::MulAdd(hn::Mul(g, g), rest2, hn::Mul(load_upto(d, average_square + i, n), beta2));
    const auto spread = hn::MulAdd(hn::Sqrt(v), root, eps);
    const auto after = hn::NegMulAdd(rate, hn::Div(m, spread), hn::Mul(before, shrink));
    store_upto(m, d, average + i, n);
    store_upto(v, d, average_square + i, n);
    store_upto(after, d, master + i, n);
    if constexpr (!std::is_same_v<T, C>) {
      store_upto(after, d, value + i, n);
    }
  }
}

template <class T>
void sgd_update(Compute<T>* master, T* value, Compute<T>* velocity, const T* gradient,
                const SgdStep& step, size_t count) {
  using C = Compute<T>;
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto set = [d](double v) HWY_ATTR { return hn::Set(d, static_cast<C>(v)); };
  const auto scale = set(step.grad_scale);
  const auto decay = set(step.decay);
  const auto momentum = set(step.momentum);
  const auto rate = set(step.lr);
  for (size_t i = 0; i < count; i += lanes) {
    const size_t n = HWY_MIN(lanes, count - i);
    const auto before = load_upto(d, master + i, n);
    auto g = hn::MulAdd(load_upto(d, gradient + i, n), scale, hn::Mul(before, decay));
    if (velocity != nullptr) {
      const auto speed = hn::MulAdd(load_upto(d, velocity + i, n), momentum, g);
      store_upto(speed, d, velocity + i, n);
      g = step.nesterov ? hn::MulAdd(speed, momentum, g) : speed;
    }
    const auto after = hn::NegMulAdd(rate, g, before);
    store_upto(after, d, master + i, n);
    if constexpr (!std::is_same_v<T, C>) {
      store_upto(after, d, value + i, n);
    }
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(adam_update)
HEED_EXPORT(sgd_update)

template <class T>
void adam_range(Compute<T>* master, T* value, Compute<T>* average, Compute<T>* average_square,
                const T* gradient, const AdamStep& step, int64_t count) {
  HEED_CALL(adam_update, T)
  (master, value, average, average_square, gradient, step, static_cast<size_t>(count));
}

template <class T>
void sgd_range(Compute<T>* master, T* value, Compute<T>* velocity, const T* gradient,
               const SgdStep& step, int64_t count) {
  HEED_CALL(sgd_update, T)(master, value, velocity, gradient, step, static_cast<size_t>(count));
}

#define HEED_INSTANTIATE(T)                                                                      \
  template void adam_range(Compute<T>*, T*, Compute<T>*, Compute<T>*, const T*, const AdamStep&, \
                           int64_t);                                                             \
  template void sgd_range(Compute<T>*, T*, Compute<T>*, const T*, const SgdStep&, int64_t);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
