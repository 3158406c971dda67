#pragma once

#include "heed/tensor.h"
#include "kernels/gemm.h"

namespace heed {

/// The kernel's name of a floating dtype; other types are refused in the op's name.
kernels::Element element_of(DType type, const char* op);

/// The last two axes of a tensor from element `offset` on, as the kernel takes them.
kernels::Matrix matrix_of(const Tensor& x, const char* op, int64_t offset = 0);

/// The same matrix with rows and columns exchanged.
kernels::Matrix transposed(kernels::Matrix matrix);

}  // namespace heed
