#pragma once

#include <type_traits>

#include "heed/half.h"

namespace heed::kernels {

/// The type in which a stored element is computed.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// One stored element as the type it is computed in, and back.
template <class T>
Compute<T> widen(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return to_float(value);
  }
}
template <class T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace heed::kernels
