#include "kernels/quantize.h"

#include <algorithm>
#include <cmath>

#include "kernels/quantize_blocks.h"

namespace heed::kernels {
namespace {

constexpr float kLargestHalf = 65504.0f;

/// 1/scale, and 0 where every weight rounds to zero: also for scales so small that 1/scale
/// overflows.
float inverse_of(float scale) {
  const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

bool round_block(const float* x, BlockQ8& out) {
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

bool round_block(const float* x, BlockQ4& out) {
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

/// How much each weight's error counts: large weights count more than small ones.
template <int64_t count>
bool weigh_errors(const float* x, const float* importance, float* w) {
  float squares = 0.0f;
  float sum = 0.0f;  // NaN where a weight is not finite
  for (int64_t i = 0; i < count; ++i) {
    squares += x[i] * x[i];
    sum += x[i] * 0.0f;
  }
  const float mean = squares / static_cast<float>(count);
  for (int64_t i = 0; i < count; ++i) {
    w[i] = std::sqrt(mean + x[i] * x[i]) * (importance != nullptr ? importance[i] : 1.0f);
  }
  return sum == 0.0f && std::isfinite(mean);
}

template <class Block>
inline constexpr bool kCanQuantize = requires(const float* x, Block& out) {
  quantize_block(x, x, out);
};

template <class Block>
bool quantize_blocks(const float* x, Block* out, int64_t count, const float* importance) {
  constexpr int64_t kWeights = kBlockWeights<Block>;
  bool fits = true;
  for (int64_t b = 0; b < count / kWeights; ++b, x += kWeights, ++out) {
    if constexpr (std::is_same_v<Block, BlockQ8>) {
      fits = round_block(x, *out) && fits;
      continue;
    } else if constexpr (std::is_same_v<Block, BlockQ4>) {
      if (importance == nullptr) {
        fits = round_block(x, *out) && fits;
        continue;
      }
    }
    if constexpr (kCanQuantize<Block>) {
      float w[kWeights];
      fits = weigh_errors<kWeights>(x, importance, w) && quantize_block(x, w, *out) && fits;
      importance += importance != nullptr ? kWeights : 0;
    }
  }
  return fits;
}

}  // namespace

bool can_quantize(Element type) {
  return with_block_of(type, []<class Block>(const Block*) {
    return kCanQuantize<Block> || std::is_same_v<Block, BlockQ8>;
  });
}

bool quantize(Element type, const float* x, void* blocks, int64_t count, const float* importance) {
  return with_block_of(type, [&]<class Block>(const Block*) {
    return quantize_blocks(x, static_cast<Block*>(blocks), count, importance);
  });
}

void dequantize(Element type, const void* blocks, float* out, int64_t count) {
  with_block_of(type, [&]<class Block>(const Block*) {
    constexpr int64_t kWeights = kBlockWeights<Block>;
    const auto* block = static_cast<const Block*>(blocks);
    UnpackedBlock whole;
    for (const float* end = out + count; out < end; out += kWeights) {
      unpack(*block++, whole);
      for (int64_t part = 0; part < kWeights / 16; ++part) {
        const float scale = whole.scale * static_cast<float>(whole.scales[part]);
        const float min = whole.min * static_cast<float>(whole.mins[part]);
        for (int64_t i = 16 * part; i < 16 * part + 16; ++i) {
          out[i] = scale * static_cast<float>(whole.values[i]) - min;
        }
      }
    }
  });
}

}  // namespace heed::kernels
