#pragma once

#include <cstdint>
#include <type_traits>

#include "heed/runtime.h"

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

/// Element types, for kernels that take their operands' types at run time. Those from q8_0 on are
/// GGUF's blocks (kernels/quantized_blocks.h).
enum class Element {
  f32,
  f64,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq1_s,
  iq1_m,
  tq1_0,
  tq2_0,
};

inline bool is_quantized(Element type) { return type >= Element::q8_0; }

template <class T>
inline constexpr Element kElementOf = std::is_same_v<T, double>     ? Element::f64
                                      : std::is_same_v<T, Half>     ? Element::f16
                                      : std::is_same_v<T, BFloat16> ? Element::bf16
                                                                    : Element::f32;

inline int64_t element_size(Element type) {
  return type == Element::f64 ? 8 : type == Element::f32 ? 4 : 2;
}

}  // namespace heed::kernels
