#include "kernels/convert.h"
#include "ops/common.h"

namespace heed {
namespace {

Tensor converted(const Tensor& x, DType type) {
  if (!is_floating(type) || !is_floating(x.dtype())) {
    return x.to(type);
  }
  const Tensor from = x.contiguous();
  Tensor to = Tensor::empty(x.shape(), type);
  dispatch_float(x.dtype(), "cast", [&](auto from_tag) {
    dispatch_float(type, "cast", [&](auto to_tag) {
      kernels::convert(to.data<decltype(to_tag)>(), from.data<decltype(from_tag)>(), x.numel());
    });
  });
  return to;
}

}  // namespace

Tensor cast(const Tensor& x, DType type) {
  check_defined(x, "cast");
  check(!is_quantized(type), "cast", "to {}: quantize() does that", name_of(type));
  if (x.dtype() == type) {
    return x;
  }
  Tensor y = converted(x, type);
  if (!is_floating(type)) {
    return y;
  }
  return record("cast", y, {x}, [before = x.dtype()](const Tensor& dy) {
    return std::vector{converted(dy, before)};
  });
}

}  // namespace heed
