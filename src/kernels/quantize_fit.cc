#include "kernels/quantize_fit.h"

#include <algorithm>
#include <cmath>

namespace heed::kernels {
namespace {

constexpr int kSteps = 9;          // trial scales on either side of the obvious one …
constexpr float kStepSize = 0.1f;  // … in tenths of a step of the integers

/// The element of largest magnitude, with its sign.
float largest_of(const float* x, int count) {
  float largest = 0.0f;
  for (int i = 0; i < count; ++i) {
    if (std::abs(x[i]) > std::abs(largest)) {
      largest = x[i];
    }
  }
  return largest;
}

/// Sums over a group in lanes that the compiler can put into a vector.
constexpr int kLanes = 8;
struct Sum {
  float lanes[kLanes] = {};
  double total() const {
    double sum = 0.0;
    for (const float lane : lanes) {
      sum += static_cast<double>(lane);
    }
    return sum;
  }
};

/// To the nearest integer, halves to even, for |value| < 2^22.
float nearest(float value) {
  constexpr float kShift = 0x1.8p23f;
  return (value + kShift) - kShift;
}

/// The best of trial scales 1 / inverse: rounds x · inverse to a number q(i), fits the scale to
/// these and compares what is left of the error. `count` is a multiple of kLanes.
template <class Inverse, class Number>
float best_scale(const float* x, const float* w, int count, const Inverse& inverse_of,
                 const Number& number) {
  double best_gain = 0.0;
  double best = 0.0;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inverse = inverse_of(static_cast<float>(step) * kStepSize);
    Sum sum_xq;
    Sum sum_qq;
    for (int i = 0; i < count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float q = number(x[i + lane] * inverse);
        sum_xq.lanes[lane] += w[i + lane] * x[i + lane] * q;
        sum_qq.lanes[lane] += w[i + lane] * q * q;
      }
    }
    const double xq = sum_xq.total();
    const double qq = sum_qq.total();
    if (qq > 0.0 && xq * xq > best_gain * qq) {
      best_gain = xq * xq / qq;
      best = xq / qq;
    }
  }
  return static_cast<float>(best);
}

}  // namespace

int rounded(float value, int low, int high) {
  return static_cast<int>(
      nearest(std::clamp(value, static_cast<float>(low), static_cast<float>(high))));
}

float fit_scale(const float* x, const float* w, int count, int low, int high) {
  const float largest = largest_of(x, count);
  if (largest == 0.0f || !std::isfinite(1.0f / largest)) {
    return 0.0f;
  }
  const auto lowest = static_cast<float>(low);
  const auto highest = static_cast<float>(high);
  return best_scale(
      x, w, count, [&](float step) { return (lowest + step) / largest; },
      [&](float value) { return std::min(std::max(nearest(value), lowest), highest); });
}

Affine fit_affine(const float* x, const float* w, int count, int high) {
  float smallest = 0.0f;
  float largest = x[0];
  double sw = 0.0;
  double sx = 0.0;
  double sxx = 0.0;
  for (int i = 0; i < count; ++i) {
    smallest = std::min(smallest, x[i]);
    largest = std::max(largest, x[i]);
    sw += static_cast<double>(w[i]);
    sx += static_cast<double>(w[i] * x[i]);
    sxx += static_cast<double>(w[i] * x[i] * x[i]);
  }
  const float range = largest - smallest;
  if (!(range > 0.0f) || !std::isfinite(static_cast<float>(high) / range)) {
    return {0.0f, -smallest};
  }
  const auto highest = static_cast<float>(high);
  Affine best{range / highest, -smallest};
  double least = -1.0;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inverse = (highest + static_cast<float>(step) * kStepSize) / range;
    Sum sum_q;
    Sum sum_qq;
    Sum sum_xq;
    for (int i = 0; i < count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float value = (x[i + lane] - smallest) * inverse;
        const float q = std::min(std::max(nearest(value), 0.0f), highest);
        sum_q.lanes[lane] += w[i + lane] * q;
        sum_qq.lanes[lane] += w[i + lane] * q * q;
        sum_xq.lanes[lane] += w[i + lane] * x[i + lane] * q;
      }
    }
    const double q1 = sum_q.total();
    const double q2 = sum_qq.total();
    const double xq = sum_xq.total();
    const double determinant = sw * q2 - q1 * q1;
    double scale = q2 > 0.0 ? xq / q2 : 0.0;
    double start = 0.0;
    if (determinant > 0.0) {
      const double free_start = (q2 * sx - q1 * xq) / determinant;
      if (free_start < 0.0) {
        start = free_start;
        scale = (sw * xq - sx * q1) / determinant;
      }
    }
    const double error = sxx - 2.0 * (scale * xq + start * sx) + scale * scale * q2 +
                         2.0 * scale * start * q1 + start * start * sw;
    if (scale >= 0.0 && (least < 0.0 || error < least)) {
      least = std::max(error, 0.0);
      best = {static_cast<float>(scale), static_cast<float>(-start)};
    }
  }
  return best;
}

int nearest_code(const int8_t* table, float value) {
  int code = 0;
  while (code < 15 && value > 0.5f * static_cast<float>(table[code] + table[code + 1])) {
    ++code;
  }
  return code;
}

float fit_table(const float* x, const float* w, int count, const int8_t* table) {
  const float largest = largest_of(x, count);
  if (largest == 0.0f || !std::isfinite(1.0f / largest)) {
    return 0.0f;
  }
  return best_scale(
      x, w, count, [&](float step) { return (static_cast<float>(table[0]) + 8 * step) / largest; },
      [&](float value) {
        auto number = static_cast<float>(table[0]);
        for (int code = 0; code < 15; ++code) {
          const float middle = 0.5f * static_cast<float>(table[code] + table[code + 1]);
          number += value > middle ? static_cast<float>(table[code + 1] - table[code]) : 0.0f;
        }
        return number;
      });
}

}  // namespace heed::kernels
