#include "kernels/quantize.h"

#include <algorithm>
#include <cmath>

namespace heed::kernels {
namespace {

constexpr float kLargestHalf = 65504.0f;

/// 1/scale, and 0 where every weight rounds to zero: also for scales so small that 1/scale
/// overflows.
float inverse_of(float scale) {
  const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

bool quantize_block(const float* x, BlockQ8& out) {
  float largest = 0.0f;
  float sum = 0.0f;  // NaN where a weight is: the maximum alone would pass over it
  for (int64_t i = 0; i < kBlock; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    sum += x[i] * 0.0f;
  }
  const float scale = largest / 127.0f;
  if (sum != 0.0f || !(scale <= kLargestHalf)) {
    return false;
  }
  const float inverse = inverse_of(scale);
  out.scale = to_half(scale);
  for (int64_t i = 0; i < kBlock; ++i) {
    out.values[i] = static_cast<int8_t>(std::round(x[i] * inverse));
  }
  return true;
}

bool quantize_block(const float* x, BlockQ4& out) {
  float largest = 0.0f;
  float signed_largest = 0.0f;
  float sum = 0.0f;
  for (int64_t i = 0; i < kBlock; ++i) {
    if (largest < std::abs(x[i])) {
      largest = std::abs(x[i]);
      signed_largest = x[i];
    }
    sum += x[i] * 0.0f;
  }
  const float scale = signed_largest / -8.0f;
  if (sum != 0.0f || !(std::abs(scale) <= kLargestHalf)) {
    return false;
  }
  const float inverse = inverse_of(scale);
  const auto nibble = [&](float weight) {
    return std::min(15, static_cast<int>(weight * inverse + 8.5f));
  };
  out.scale = to_half(scale);
  for (int64_t i = 0; i < kBlock / 2; ++i) {
    out.pairs[i] = static_cast<uint8_t>(nibble(x[i]) | nibble(x[kBlock / 2 + i]) << 4);
  }
  return true;
}

template <class Block>
bool quantize_blocks(const float* x, Block* out, int64_t count) {
  bool fits = true;
  for (int64_t b = 0; b < count / kBlock; ++b) {
    fits = quantize_block(x + b * kBlock, out[b]) && fits;
  }
  return fits;
}

}  // namespace

bool quantize(const float* x, BlockQ8* out, int64_t count) {
  return quantize_blocks(x, out, count);
}
bool quantize(const float* x, BlockQ4* out, int64_t count) {
  return quantize_blocks(x, out, count);
}

void dequantize(const BlockQ8* x, float* out, int64_t count) {
  for (int64_t b = 0; b < count / kBlock; ++b) {
    const float scale = to_float(x[b].scale);
    for (int64_t i = 0; i < kBlock; ++i) {
      out[b * kBlock + i] = scale * static_cast<float>(x[b].values[i]);
    }
  }
}

void dequantize(const BlockQ4* x, float* out, int64_t count) {
  for (int64_t b = 0; b < count / kBlock; ++b) {
    const float scale = to_float(x[b].scale);
    float* weights = out + b * kBlock;
    for (int64_t i = 0; i < kBlock / 2; ++i) {
      weights[i] = scale * static_cast<float>((x[b].pairs[i] & 15) - 8);
      weights[kBlock / 2 + i] = scale * static_cast<float>((x[b].pairs[i] >> 4) - 8);
    }
  }
}

}  // namespace heed::kernels
