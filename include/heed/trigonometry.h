#pragma once

#include "heed/tensor.h"

// Differentiable, element by element, as in heed/ops.h.

namespace heed {

HEED_API Tensor sin(const Tensor& x);
HEED_API Tensor cos(const Tensor& x);

}  // namespace heed
