#include "kernels/quantize.h"

#include <atomic>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/ops.h"

namespace heed {
namespace {

constexpr int64_t kTile = 1024 * kernels::kBlock;  // weights

/// Calls fn(blocks) with the tensor's blocks in their own type.
template <class Fn>
void with_blocks(const Tensor& x, Fn&& fn) {
  if (x.dtype() == DType::q8_0) {
    fn(static_cast<kernels::BlockQ8*>(x.raw()));
  } else {
    fn(static_cast<kernels::BlockQ4*>(x.raw()));
  }
}

}  // namespace

Tensor quantize(const Tensor& x, DType type) {
  check(is_quantized(type), "quantize", "{} is not a quantised type; q8_0 and q4_0 are",
        name_of(type));
  check(is_floating(x.dtype()), "quantize", "takes floating tensors, not {}", name_of(x.dtype()));
  check(x.rank() > 0 && x.size(-1) % kernels::kBlock == 0, "quantize",
        "rows of shape {} are no multiple of {}", x.shape(), kernels::kBlock);
  const Tensor flat = x.to(DType::f32).contiguous();
  const float* in = flat.data<float>();
  Tensor result = Tensor::empty(x.shape(), type);
  std::atomic<bool> fits{true};
  with_blocks(result, [&](auto* blocks) {
    parallel_ranges(x.numel(), kTile, [&](int64_t begin, int64_t end) {
      if (!kernels::quantize(in + begin, blocks + begin / kernels::kBlock, end - begin)) {
        fits.store(false);
      }
    });
  });
  check(fits.load(), "quantize", "a weight of shape {} is NaN, infinite or beyond what {} holds",
        x.shape(), name_of(type));
  return result;
}

Tensor dequantize(const Tensor& x) {
  if (!is_quantized(x.dtype())) {
    return is_floating(x.dtype()) ? x.to(DType::f32) : x;
  }
  if (x.rank() == 2 && !x.is_contiguous() &&
      x.strides()[0] == 1) {  // a transposed view: blocks lie along the first axis
    const NoGrad no_grad;
    return transpose(dequantize(transpose(x)));
  }
  const Tensor flat = x.contiguous();
  Tensor result = Tensor::empty(x.shape());
  float* out = result.data<float>();
  with_blocks(flat, [&](const auto* blocks) {
    parallel_ranges(x.numel(), kTile, [&](int64_t begin, int64_t end) {
      kernels::dequantize(blocks + begin / kernels::kBlock, out + begin, end - begin);
    });
  });
  return result;
}

}  // namespace heed
