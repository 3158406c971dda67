#pragma once

#include "heed/tensor.h"
#include "kernels/types.h"

namespace heed {

/// The kernels' name of a quantized dtype.
kernels::Element quantized_element(DType type);

}  // namespace heed
