#pragma once

#include "heed/ops.h"
#include "kernels/activation.h"

namespace heed {

/// The kernel behind an activation: also for ops that apply one to a tile in cache.
kernels::Unary kernel_of(Activation kind);

}  // namespace heed
