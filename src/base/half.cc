#include <bit>

#include "heed/runtime.h"

namespace heed {

float to_float(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

Half to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return {static_cast<uint16_t>(sign | 0x7e00u)};  // NaN
  }
  if (magnitude >= 0x477ff000u) {
    return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds to infinity
  }
  if (magnitude < 0x38800000u) {  // subnormal half: the addition rounds to nearest even
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<uint16_t>(bits >> 16 | 0x40u)};  // NaN stays NaN
  }
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace heed
