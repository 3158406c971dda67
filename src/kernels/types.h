#pragma once

#include <cstdint>
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

/// Floating element types, for kernels that take their operands' types at run time.
enum class Element { f32, f64, f16, bf16 };

template <class T>
inline constexpr Element kElementOf = std::is_same_v<T, double>     ? Element::f64
                                      : std::is_same_v<T, Half>     ? Element::f16
                                      : std::is_same_v<T, BFloat16> ? Element::bf16
                                                                    : Element::f32;

inline int64_t element_size(Element type) {
  return type == Element::f64 ? 8 : type == Element::f32 ? 4 : 2;
}

}  // namespace heed::kernels
