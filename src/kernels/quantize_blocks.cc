// Quantising to blocks of 32 by least squares.
#include "kernels/quantize_blocks.h"

#include <cmath>

#include "kernels/quantize_fit.h"

namespace heed::kernels {
namespace {

constexpr int kCount = static_cast<int>(kBlock);

float inverse_of(float scale) { return scale != 0.0f ? 1.0f / scale : 0.0f; }

/// Codes of 32 weights to 16 bytes, and their fifth bits to four more where there are any.
template <class Code>
void pack_pairs(const Code& code, uint8_t* pairs, uint8_t* high = nullptr) {
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) {
    const int low = code(i);
    const int other = code(16 + i);
    pairs[i] = static_cast<uint8_t>((low & 15) | (other & 15) << 4);
    bits |= static_cast<uint32_t>(low >> 4) << i | static_cast<uint32_t>(other >> 4) << (16 + i);
  }
  for (int i = 0; i < 4 && high != nullptr; ++i) {
    high[i] = static_cast<uint8_t>(bits >> (8 * i));
  }
}

template <class Block>
bool affine(const float* x, const float* w, int highest, Block& out, uint8_t* high = nullptr) {
  const Affine fit = fit_affine(x, w, kCount, highest);
  out.scale = to_half(fit.scale);
  out.min = to_half(-fit.min);
  const float inverse = inverse_of(to_float(out.scale));
  const float min = to_float(out.min);
  pack_pairs([&](int i) { return rounded((x[i] - min) * inverse, 0, highest); }, out.pairs, high);
  return std::isfinite(to_float(out.scale)) && std::isfinite(min);
}

template <class Block>
bool symmetric(const float* x, const float* w, int most, Block& out, uint8_t* high = nullptr) {
  out.scale = to_half(fit_scale(x, w, kCount, -most, most - 1));
  const float inverse = inverse_of(to_float(out.scale));
  pack_pairs([&](int i) { return rounded(x[i] * inverse, -most, most - 1) + most; }, out.pairs,
             high);
  return std::isfinite(to_float(out.scale));
}

}  // namespace

bool quantize_block(const float* x, const float* w, BlockQ4& out) {
  return symmetric(x, w, 8, out);
}
bool quantize_block(const float* x, const float* w, BlockQ5_0& out) {
  return symmetric(x, w, 16, out, out.high);
}
bool quantize_block(const float* x, const float* w, BlockQ4_1& out) {
  return affine(x, w, 15, out);
}
bool quantize_block(const float* x, const float* w, BlockQ5_1& out) {
  return affine(x, w, 31, out, out.high);
}

bool quantize_block(const float* x, const float* w, BlockIQ4NL& out) {
  out.scale = to_half(fit_table(x, w, kCount, kIQ4Values));
  const float inverse = inverse_of(to_float(out.scale));
  pack_pairs([&](int i) { return nearest_code(kIQ4Values, x[i] * inverse); }, out.pairs);
  return std::isfinite(to_float(out.scale));
}

}  // namespace heed::kernels
