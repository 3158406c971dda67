#include "heed/random.h"
#include "kernels/random.h"
#include "ops/common.h"

namespace heed {
namespace {

Tensor dropped(const Tensor& input, RandomKey key, double p) {
  const Tensor x = input.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "dropout", [&](auto tag) {
    using T = decltype(tag);
    kernels::dropout(y.data<T>(), x.data<T>(), key, p, x.numel());
  });
  return y;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  check_floating(x, "dropout");
  check(p >= 0.0 && p < 1.0, "dropout", "probability {} is not in [0, 1)", p);
  if (p == 0.0 || !training) {
    return x;
  }
  // The mask is not kept: the gradient draws the same words again.
  const RandomKey key = next_random_key();
  return record("dropout", dropped(x, key, p), {x},
                [key, p](const Tensor& dy) { return std::vector{dropped(dy, key, p)}; });
}

}  // namespace heed
