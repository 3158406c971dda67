#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

/// to[i] = from[i] between floating types, rounding to nearest even.
template <class To, class From>
void convert(To* to, const From* from, int64_t count);

}  // namespace heed::kernels
