#pragma once

#include <type_traits>

#include "heed/half.h"

namespace heed::kernels {

/// The type in which a stored element is computed.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace heed::kernels
