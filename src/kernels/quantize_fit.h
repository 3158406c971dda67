#pragma once

#include <cstdint>

namespace heed::kernels {

// Scales of small groups of weights by weighted least squares. x are `count` weights, w how much
// the square of each one's error counts (≥ 0). `count` is 16 or 32.

/// The scale for x ≈ scale · q with whole q from `low` to `high`. It may be negative: the weight of
/// largest magnitude goes to the longer end, `low`.
float fit_scale(const float* x, const float* w, int count, int low, int high);

/// x ≈ scale · q − min with whole q from 0 to `high`, min ≥ 0.
struct Affine {
  float scale;
  float min;
};
Affine fit_affine(const float* x, const float* w, int count, int high);

/// The scale for x ≈ scale · table[code], with a table of 16 rising numbers.
float fit_table(const float* x, const float* w, int count, const int8_t* table);

/// The code whose number in a rising table of 16 is nearest to `value`.
int nearest_code(const int8_t* table, float value);

/// To the nearest integer between `low` and `high`.
int rounded(float value, int low, int high);

}  // namespace heed::kernels
