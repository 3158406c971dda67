// Quantising to K-quants and IQ4_XS. First every group of 16 or 32 weights gets its own scale (and
// minimum) by least squares; these become small whole numbers under a scale of the superblock; then
// the weights are rounded to what is left, and the superblock's scales fitted once more to them.
#include <algorithm>
#include <cmath>

#include "kernels/quantize_blocks.h"
#include "kernels/quantize_fit.h"

namespace heed::kernels {
namespace {

constexpr int kMostGroups = 16;
constexpr int kRounds = 2;  // of rounding weights and fitting the superblock's scales to them

/// A superblock in whole numbers: weight i is scale · scales[group] · q[i] − min · mins[group].
struct Whole {
  float scale = 0.0f;  // as f16 holds it
  float min = 0.0f;
  int scales[kMostGroups] = {};
  int mins[kMostGroups] = {};
  int q[kSuperblock] = {};
};

float as_half(double value) { return to_float(to_half(static_cast<float>(value))); }

double squared_error(const float* x, const float* w, int group, const Whole& whole) {
  double error = 0.0;
  for (int i = 0; i < kSuperblock; ++i) {
    const int j = i / group;
    const float value =
        whole.scale * static_cast<float>(whole.scales[j]) * static_cast<float>(whole.q[i]) -
        whole.min * static_cast<float>(whole.mins[j]);
    error += static_cast<double>(w[i] * (x[i] - value) * (x[i] - value));
  }
  return error;
}

/// The scales that fit best to given whole numbers.
void refit(const float* x, const float* w, int group, Whole& whole) {
  double aa = 0.0;
  double ab = 0.0;
  double bb = 0.0;
  double xa = 0.0;
  double xb = 0.0;
  for (int i = 0; i < kSuperblock; ++i) {
    const int part = i / group;
    const double a = static_cast<double>(whole.scales[part]) * whole.q[i];
    const double b = -static_cast<double>(whole.mins[part]);
    const double weight = static_cast<double>(w[i]);
    aa += weight * a * a;
    ab += weight * a * b;
    bb += weight * b * b;
    xa += weight * static_cast<double>(x[i]) * a;
    xb += weight * static_cast<double>(x[i]) * b;
  }
  const double determinant = aa * bb - ab * ab;
  if (bb == 0.0 && aa > 0.0) {
    whole.scale = as_half(xa / aa);
  } else if (determinant > 1e-12 * aa * bb) {
    const double min = (aa * xb - ab * xa) / determinant;
    if (min >= 0.0) {
      whole.scale = as_half((bb * xa - ab * xb) / determinant);
      whole.min = as_half(min);
    }
  }
}

/// Rounds the weights to the nearest that the scales allow.
template <class Nearest>
void round_weights(const float* x, int group, const Nearest& nearest, Whole& whole) {
  for (int i = 0; i < kSuperblock; ++i) {
    const int j = i / group;
    const float scale = whole.scale * static_cast<float>(whole.scales[j]);
    const float shifted = x[i] + whole.min * static_cast<float>(whole.mins[j]);
    whole.q[i] = nearest(scale != 0.0f ? shifted / scale : 0.0f);
  }
}

/// Rounds and refits in turn; keeps the round with the smallest error.
template <class Nearest>
void settle(const float* x, const float* w, int group, const Nearest& nearest, Whole& whole) {
  round_weights(x, group, nearest, whole);
  double least = squared_error(x, w, group, whole);
  for (int round = 0; round < kRounds; ++round) {
    Whole next = whole;
    refit(x, w, group, next);
    round_weights(x, group, nearest, next);
    const double error = squared_error(x, w, group, next);
    if (!(error < least)) {
      return;
    }
    least = error;
    whole = next;
  }
}

/// Groups with a minimum: q from 0 to `high`, scales and minima from 0 to `most`.
Whole affine(const float* x, const float* w, int group, int high, int most) {
  const int groups = static_cast<int>(kSuperblock) / group;
  Affine fits[kMostGroups];
  float scale = 0.0f;
  float min = 0.0f;
  for (int j = 0; j < groups; ++j) {
    fits[j] = fit_affine(x + j * group, w + j * group, group, high);
    scale = std::max(scale, fits[j].scale);
    min = std::max(min, fits[j].min);
  }
  Whole whole;
  whole.scale = as_half(scale / static_cast<float>(most));
  whole.min = as_half(min / static_cast<float>(most));
  for (int j = 0; j < groups; ++j) {
    whole.scales[j] = whole.scale > 0 ? rounded(fits[j].scale / whole.scale, 0, most) : 0;
    whole.mins[j] = whole.min > 0 ? rounded(fits[j].min / whole.min, 0, most) : 0;
  }
  settle(
      x, w, group, [&](float value) { return rounded(value, 0, high); }, whole);
  return whole;
}

/// Groups around zero: scales from −`most` to `most` − 1. `fit` gives a group's scale.
template <class Fit, class Nearest>
Whole symmetric(const float* x, const float* w, int group, int most, const Fit& fit,
                const Nearest& nearest) {
  const int groups = static_cast<int>(kSuperblock) / group;
  float scales[kMostGroups];
  float largest = 0.0f;
  for (int j = 0; j < groups; ++j) {
    scales[j] = fit(x + j * group, w + j * group);
    largest = std::abs(scales[j]) > std::abs(largest) ? scales[j] : largest;
  }
  Whole whole;
  whole.scale = as_half(-largest / static_cast<float>(most));
  for (int j = 0; j < groups && whole.scale != 0.0f; ++j) {
    whole.scales[j] = rounded(scales[j] / whole.scale, -most, most - 1);
  }
  settle(x, w, group, nearest, whole);
  return whole;
}

bool fits(const Whole& whole) { return std::isfinite(whole.scale) && std::isfinite(whole.min); }

void pack_scales(const Whole& whole, uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(whole.scales[j] | (whole.scales[4 + j] >> 4) << 6);
    packed[4 + j] = static_cast<uint8_t>(whole.mins[j] | (whole.mins[4 + j] >> 4) << 6);
    packed[8 + j] =
        static_cast<uint8_t>((whole.scales[4 + j] & 15) | (whole.mins[4 + j] & 15) << 4);
  }
}
void pack_pairs_of_64(const Whole& whole, uint8_t* pairs) {
  for (int i = 0; i < 128; ++i) {
    const int* q = whole.q + i / 32 * 64 + i % 32;
    pairs[i] = static_cast<uint8_t>((q[0] & 15) | (q[32] & 15) << 4);
  }
}
/// Bit `bit` of weight 32 j + i becomes bit j of high[i].
void pack_bits(const Whole& whole, int bit, uint8_t* high) {
  for (int i = 0; i < 32; ++i) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) {
      bits |= ((whole.q[32 * j + i] >> bit) & 1) << j;
    }
    high[i] = static_cast<uint8_t>(bits);
  }
}
/// Two bits of each weight from `bit` on, four runs of 32 in 32 bytes.
void pack_quads(const Whole& whole, int bit, uint8_t* quads) {
  for (int i = 0; i < 64; ++i) {
    const int* q = whole.q + i / 32 * 128 + i % 32;
    int four = 0;
    for (int run = 0; run < 4; ++run) {
      four |= ((q[32 * run] >> bit) & 3) << (2 * run);
    }
    quads[i] = static_cast<uint8_t>(four);
  }
}
void move_up(Whole& whole, int offset) {
  for (int& q : whole.q) {
    q += offset;
  }
}

}  // namespace

bool quantize_block(const float* x, const float* w, BlockQ2K& out) {
  const Whole whole = affine(x, w, 16, 3, 15);
  out.scale = to_half(whole.scale);
  out.min = to_half(whole.min);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = static_cast<uint8_t>(whole.scales[j] | whole.mins[j] << 4);
  }
  pack_quads(whole, 0, out.quads);
  return fits(whole);
}

bool quantize_block(const float* x, const float* w, BlockQ3K& out) {
  Whole whole = symmetric(
      x, w, 16, 32, [](const float* a, const float* b) { return fit_scale(a, b, 16, -4, 3); },
      [](float value) { return rounded(value, -4, 3); });
  move_up(whole, 4);
  out.scale = to_half(whole.scale);
  std::fill_n(out.scales, 12, uint8_t{0});
  for (int j = 0; j < 16; ++j) {
    const int scale = whole.scales[j] + 32;
    out.scales[j % 8] |= static_cast<uint8_t>((scale & 15) << (j < 8 ? 0 : 4));
    out.scales[8 + j % 4] |= static_cast<uint8_t>((scale >> 4) << (2 * (j / 4)));
  }
  pack_quads(whole, 0, out.quads);
  pack_bits(whole, 2, out.high);
  return fits(whole);
}

bool quantize_block(const float* x, const float* w, BlockQ4K& out) {
  const Whole whole = affine(x, w, 32, 15, 63);
  out.scale = to_half(whole.scale);
  out.min = to_half(whole.min);
  pack_scales(whole, out.scales);
  pack_pairs_of_64(whole, out.pairs);
  return fits(whole);
}

bool quantize_block(const float* x, const float* w, BlockQ5K& out) {
  const Whole whole = affine(x, w, 32, 31, 63);
  out.scale = to_half(whole.scale);
  out.min = to_half(whole.min);
  pack_scales(whole, out.scales);
  pack_pairs_of_64(whole, out.pairs);
  pack_bits(whole, 4, out.high);
  return fits(whole);
}

bool quantize_block(const float* x, const float* w, BlockQ6K& out) {
  Whole whole = symmetric(
      x, w, 16, 128, [](const float* a, const float* b) { return fit_scale(a, b, 16, -32, 31); },
      [](float value) { return rounded(value, -32, 31); });
  move_up(whole, 32);
  out.scale = to_half(whole.scale);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = static_cast<int8_t>(whole.scales[j]);
  }
  for (int i = 0; i < 128; ++i) {
    const int* q = whole.q + i / 64 * 128 + i % 64;
    out.pairs[i] = static_cast<uint8_t>((q[0] & 15) | (q[64] & 15) << 4);
  }
  pack_quads(whole, 4, out.high);
  return fits(whole);
}

bool quantize_block(const float* x, const float* w, BlockIQ4XS& out) {
  const Whole whole = symmetric(
      x, w, 32, 32, [](const float* a, const float* b) { return fit_table(a, b, 32, kIQ4Values); },
      [](float value) { return static_cast<int>(kIQ4Values[nearest_code(kIQ4Values, value)]); });
  out.scale = to_half(whole.scale);
  out.scales_high = 0;
  std::fill_n(out.scales_low, 4, uint8_t{0});
  for (int j = 0; j < 8; ++j) {
    const int scale = whole.scales[j] + 32;
    out.scales_low[j / 2] |= static_cast<uint8_t>((scale & 15) << (4 * (j % 2)));
    out.scales_high = static_cast<uint16_t>(out.scales_high | (scale >> 4) << (2 * j));
    for (int i = 0; i < 16; ++i) {
      const auto code = [&](int at) {
        return nearest_code(kIQ4Values, static_cast<float>(whole.q[32 * j + at]));
      };
      out.pairs[16 * j + i] = static_cast<uint8_t>(code(i) | code(16 + i) << 4);
    }
  }
  return fits(whole);
}

}  // namespace heed::kernels
