#pragma once

#include "heed/tensor.h"
#include "kernels/gemm.h"
#include "kernels/types.h"

namespace heed {

/// The kernels' name of a quantised dtype.
kernels::Element quantized_element(DType type);

/// y [rows, in] = x [rows, out] · weight, where `weight` is quantised [out, in]. Dequantises a tile
/// of the weight at a time, never the whole of it.
void multiply_by_quantized(int64_t rows, const kernels::Matrix& x, const Tensor& weight, float* y);

}  // namespace heed
