#include <memory>

#include "base/sample_ranges.h"
#include "heed/runtime.h"
#include "kernels/random.h"
#include "ops/common.h"

namespace heed {
namespace {

/// Where the random numbers of a tensor come from; its gradient draws them again.
struct Mask {
  RandomKey key;
  double p;
  std::vector<SampleRange> ranges;
};

Tensor dropped(const Tensor& input, const Mask& mask) {
  const Tensor x = input.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "dropout", [&](auto tag) {
    using T = decltype(tag);
    kernels::dropout(y.data<T>(), x.data<T>(), mask.key, mask.p, mask.ranges);
  });
  return y;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, const ExampleRows& examples) {
  check_floating(x, "dropout");
  check(p >= 0.0 && p < 1.0, "dropout", "probability {} is not in [0, 1)", p);
  if (p == 0.0 || !training) {
    return x;
  }
  // The mask is not kept: the gradient draws the same words again.
  const int64_t rows = x.rank() > 0 ? x.size(0) : 1;
  const auto mask = std::make_shared<const Mask>(
      Mask{next_random_key(), p,
           sample_ranges(rows, x.numel(), examples.first, examples.count, examples.starts)});
  return record("dropout", dropped(x, *mask), {x},
                [mask](const Tensor& dy) { return std::vector{dropped(dy, *mask)}; });
}

}  // namespace heed
