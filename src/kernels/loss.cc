#include "kernels/loss.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void cross_entropy_row(double* loss, Compute<T>* lse, const T* logits, int64_t target,
                       double smoothing, size_t classes) {
  const Compute<T> shift = row_shift(logits, classes);
  *lse = shift + std::log(row_sum_exp(logits, shift, classes));
  const auto full = static_cast<double>(*lse);
  *loss = (1.0 - smoothing) * (full - static_cast<double>(widen(logits[target])));
  if (smoothing > 0.0) {
    const Compute<T> sum = sum_of(
        Tag<T>(), classes, [](auto, auto v) HWY_ATTR { return v; }, logits);
    *loss += smoothing * (full - static_cast<double>(sum) / static_cast<double>(classes));
  }
}

template <class G, class T>
void cross_entropy_grad_row(G* dlogits, const T* logits, Compute<T> lse, int64_t target,
                            double smoothing, double scale, size_t classes) {
  const Tag<T> d;
  const double target_logit = static_cast<double>(widen(logits[target]));
  const double everywhere = smoothing / static_cast<double>(classes);
  const auto offset = hn::Set(d, lse);
  const auto factor = hn::Set(d, static_cast<Compute<T>>(scale));
  const auto even = hn::Set(d, static_cast<Compute<T>>(everywhere));
  map(
      dlogits, classes,
      [=](auto tag, auto v) HWY_ATTR {
        return hn::Mul(factor, hn::Sub(exp_negative(tag, hn::Sub(v, offset)), even));
      },
      logits);
  const double p = std::exp(target_logit - static_cast<double>(lse));
  dlogits[target] = narrow<G>(scale * (p - everywhere - (1.0 - smoothing)));
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(cross_entropy_row)
HEED_EXPORT(cross_entropy_grad_row)

template <class T>
void cross_entropy(double* loss, Compute<T>* lse, const T* logits, const int64_t* targets,
                   CrossEntropy options, int64_t rows, int64_t classes) {
  parallel_ranges(rows, rows_per_tile(classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (targets[row] == options.ignore_index) {
        loss[row] = 0.0;
        lse[row] = 0;
      } else {
        HEED_CALL(cross_entropy_row, T)
        (loss + row, lse + row, logits + row * classes, targets[row], options.label_smoothing,
         static_cast<size_t>(classes));
      }
    }
  });
}

template <class G, class T>
void cross_entropy_grad(const CrossEntropyGrad<G, T>& loss) {
  const int64_t classes = loss.classes;
  parallel_ranges(loss.rows, rows_per_tile(classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      G* dlogits = loss.dlogits + row * loss.stride;
      if (loss.targets[row] == loss.options.ignore_index) {
        std::fill_n(dlogits, classes, G{});
      } else {
        HEED_CALL(cross_entropy_grad_row, G, T)
        (dlogits, loss.logits + row * classes, loss.lse[row], loss.targets[row],
         loss.options.label_smoothing, loss.scale, static_cast<size_t>(classes));
      }
    }
  });
}

#define HEED_INSTANTIATE(T)                                                                 \
  template void cross_entropy(double*, Compute<T>*, const T*, const int64_t*, CrossEntropy, \
                              int64_t, int64_t);                                            \
  template void cross_entropy_grad(const CrossEntropyGrad<T, T>&);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE
template void cross_entropy_grad(const CrossEntropyGrad<BFloat16, float>&);

}  // namespace heed::kernels
#endif
