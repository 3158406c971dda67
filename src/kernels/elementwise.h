#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

/// into[i] += x[i]. T: float, double, Half, BFloat16.
template <class T>
void add_inplace(T* into, const T* x, int64_t count);

}  // namespace heed::kernels
