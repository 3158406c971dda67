#include "io/resample_audio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace heed {
namespace {

constexpr double kZeroCrossings = 32.0;  // of the sinc on either side
constexpr double kRollOff = 0.94;        // where the pass band ends, of the Nyquist frequency
constexpr double kBeta = 9.0;            // of the Kaiser window
constexpr int64_t kMostPhases = 512;  // more positions than these lie between two rows of weights

/// The modified Bessel function of order 0 for |x| of at most about 10. The terms of its series are
/// positive, so that nothing cancels; std::cyl_bessel_i() takes many times as long.
double bessel_i0(double x) {
  const double square = x * x / 4.0;
  double term = 1.0;
  double sum = 1.0;
  for (double k = 1.0; term > sum * 1e-17; k += 1.0) {
    term *= square / (k * k);
    sum += term;
  }
  return sum;
}

double kaiser(double x) {
  static const double largest = bessel_i0(kBeta);
  return std::abs(x) >= 1.0 ? 0.0 : bessel_i0(kBeta * std::sqrt(1.0 - x * x)) / largest;
}

double sinc(double x) {
  const double angle = std::numbers::pi * x;
  return std::abs(angle) < 1e-9 ? 1.0 : std::sin(angle) / angle;
}

/// Sums in eight lanes, so that the compiler can use vectors.
float dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<float, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
    }
  }
  float sum = 0.0F;
  for (; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return std::accumulate(sums.begin(), sums.end(), sum);
}

}  // namespace

AudioResampler::AudioResampler(int64_t from, int64_t to)
    : step_(from / std::gcd(from, to)), parts_(to / std::gcd(from, to)) {
  if (step_ == parts_) {
    return;
  }
  const double cutoff =
      kRollOff * std::min(1.0, static_cast<double>(to) / static_cast<double>(from));
  const double reach = kZeroCrossings / cutoff;  // in input samples
  half_ = static_cast<int64_t>(std::ceil(reach));
  phases_ = std::min(parts_, kMostPhases);
  const int64_t taps = 2 * half_;
  weights_.resize(static_cast<size_t>((phases_ + 1) * taps));
  for (int64_t phase = 0; phase <= phases_; ++phase) {
    const double offset = static_cast<double>(phase) / static_cast<double>(phases_);
    std::vector<double> row(static_cast<size_t>(taps));
    for (int64_t tap = 0; tap < taps; ++tap) {
      // Tap `half_ - 1` is the input sample at or before the output's position.
      const double distance = static_cast<double>(tap - half_ + 1) - offset;
      row[static_cast<size_t>(tap)] = sinc(cutoff * distance) * kaiser(distance / reach);
    }
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    std::transform(row.begin(), row.end(), weights_.begin() + phase * taps,
                   [&](double weight) { return static_cast<float>(weight / sum); });
  }
  history_.assign(static_cast<size_t>(half_ - 1), 0.0F);  // silence before the first sample
  first_ = 1 - half_;
}

float AudioResampler::sample_at(int64_t number) const {
  const int64_t taps = 2 * half_;
  const int64_t whole = number * step_ / parts_;
  const int64_t part = number * step_ % parts_;
  const float* samples = history_.data() + (whole - half_ + 1 - first_);
  const int64_t phase = part * phases_ / parts_;
  const float* row = weights_.data() + phase * taps;
  const float value = dot(samples, row, taps);
  const int64_t between = part * phases_ % parts_;
  if (between == 0) {
    return value;
  }
  const float fraction = static_cast<float>(between) / static_cast<float>(parts_);
  return value + fraction * (dot(samples, row + taps, taps) - value);
}

void AudioResampler::add(std::span<const float> block, bool last, std::vector<float>& out) {
  if (step_ == parts_) {
    out.insert(out.end(), block.begin(), block.end());
    return;
  }
  history_.insert(history_.end(), block.begin(), block.end());
  received_ += static_cast<int64_t>(block.size());
  if (last) {
    history_.insert(history_.end(), static_cast<size_t>(half_),
                    0.0F);  // silence behind the last one
  }
  const int64_t known =
      last ? received_ : received_ - half_;  // positions before this can be computed
  for (; produced_ * step_ < known * parts_; ++produced_) {
    out.push_back(sample_at(produced_));
  }
  const int64_t needed = produced_ * step_ / parts_ - half_ + 1;
  const int64_t drop =
      std::clamp<int64_t>(needed - first_, 0, static_cast<int64_t>(history_.size()));
  history_.erase(history_.begin(), history_.begin() + drop);
  first_ += drop;
}

}  // namespace heed
