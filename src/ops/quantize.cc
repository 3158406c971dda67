#include "kernels/quantize.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/ops.h"
#include "ops/quantized.h"

namespace heed {
namespace {

constexpr int64_t kTile = 128 * kernels::kSuperblock;  // weights

const char* at(const Tensor& blocks, int64_t weight) {
  return static_cast<const char*>(blocks.raw()) + bytes_of(blocks.dtype(), weight);
}

}  // namespace

kernels::Element quantized_element(DType type) {
  using kernels::Element;
  // Both lists name the block types in the same order, from q8_0 to tq2_0.
  static_assert(static_cast<int>(DType::tq2_0) - static_cast<int>(DType::q8_0) ==
                static_cast<int>(Element::tq2_0) - static_cast<int>(Element::q8_0));
  check(is_quantized(type), "quantize", "{} is not a quantised type", name_of(type));
  return static_cast<Element>(static_cast<int>(type) - static_cast<int>(DType::q8_0) +
                              static_cast<int>(Element::q8_0));
}

Tensor quantize(const Tensor& x, DType type, const Tensor& importance) {
  check(is_quantized(type), "quantize", "{} is not a quantised type; q8_0, q4_0 and q4_k are",
        name_of(type));
  check(kernels::can_quantize(quantized_element(type)), "quantize", "{} is only read, not written",
        name_of(type));
  check(is_floating(x.dtype()), "quantize", "takes floating tensors, not {}", name_of(x.dtype()));
  check(x.rank() > 0 && x.size(-1) % block_of(type) == 0, "quantize",
        "rows of shape {} are not a multiple of {}", x.shape(), block_of(type));
  check(!importance.defined() ||
            (importance.dtype() == DType::f32 && importance.shape() == Shape{x.size(-1)}),
        "quantize", "importance must be f32 [{}]", x.size(-1));
  const Tensor flat = x.to(DType::f32).contiguous();
  const Tensor weights = importance.defined() ? importance.contiguous() : importance;
  const float* in = flat.data<float>();
  Tensor result = Tensor::empty(x.shape(), type);
  std::atomic<bool> fits{true};
  const int64_t tile = weights.defined() ? x.size(-1) : kTile;
  parallel_ranges(x.numel(), std::max<int64_t>(tile, 1), [&](int64_t begin, int64_t end) {
    if (!kernels::quantize(quantized_element(type), in + begin,
                           const_cast<char*>(at(result, begin)), end - begin,
                           weights.defined() ? weights.data<float>() : nullptr)) {
      fits.store(false);
    }
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
  parallel_ranges(x.numel(), kTile, [&](int64_t begin, int64_t end) {
    kernels::dequantize(quantized_element(x.dtype()), at(flat, begin), out + begin, end - begin);
  });
  return result;
}

void multiply_by_quantized(int64_t rows, const kernels::Matrix& x, const Tensor& weight, float* y) {
  constexpr int64_t kTileElements = int64_t{1} << 20;
  constexpr int64_t kFewestRows = 64;
  const NoGrad no_grad;
  const int64_t out = weight.size(0);
  const int64_t in = weight.size(1);
  const int64_t tile = std::max(kFewestRows, kTileElements / std::max<int64_t>(in, 1));
  for (int64_t begin = 0; begin < out; begin += tile) {
    const int64_t end = std::min(out, begin + tile);
    const Tensor part = dequantize(slice(weight, 0, begin, end));
    kernels::Matrix columns = x;
    columns.data =
        static_cast<const char*>(x.data) + begin * x.column_stride * kernels::element_size(x.type);
    kernels::gemm({.m = rows,
                   .n = in,
                   .k = end - begin,
                   .a = columns,
                   .b = {part.raw(), kernels::Element::f32, in, 1},
                   .c = y,
                   .c_type = kernels::Element::f32,
                   .c_stride = in,
                   .accumulate = begin > 0});
  }
}

}  // namespace heed
