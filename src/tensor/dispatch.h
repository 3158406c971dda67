#pragma once

#include <string_view>

#include "base/check.h"
#include "heed/tensor.h"

namespace heed {

/// Calls fn(T{}) with the C++ type of a floating or integer dtype; block types are refused.
template <class Fn>
auto dispatch_dtype(DType type, std::string_view op, Fn&& fn) {
  switch (type) {
    case DType::f32:
      return fn(float{});
    case DType::f64:
      return fn(double{});
    case DType::f16:
      return fn(Half{});
    case DType::bf16:
      return fn(BFloat16{});
    case DType::i32:
      return fn(int32_t{});
    case DType::i64:
      return fn(int64_t{});
    case DType::u8:
      return fn(uint8_t{});
    case DType::boolean:
      return fn(bool{});
    default:
      break;
  }
  fail(ErrorKind::runtime, op, "does not take {} tensors", name_of(type));
}

/// The floating types only.
template <class Fn>
auto dispatch_float(DType type, std::string_view op, Fn&& fn) {
  switch (type) {
    case DType::f32:
      return fn(float{});
    case DType::f64:
      return fn(double{});
    case DType::f16:
      return fn(Half{});
    case DType::bf16:
      return fn(BFloat16{});
    default:
      break;
  }
  fail(ErrorKind::runtime, op, "takes floating tensors, not {}", name_of(type));
}

/// One element as a double and back, for the slow general paths.
template <class T>
double load_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return to_float(value);
  } else {
    return static_cast<double>(value);
  }
}
template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0.0;
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace heed
