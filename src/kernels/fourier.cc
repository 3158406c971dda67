#include "kernels/fourier.h"

#include <algorithm>
#include <numbers>

namespace heed::kernels {
namespace {

std::complex<double> unit(double turns) {
  const double angle = 2 * std::numbers::pi * turns;
  return {std::cos(angle), std::sin(angle)};
}

}  // namespace

Fourier::Fourier(int64_t length) : size_(1) {
  const bool power = (length & (length - 1)) == 0;
  while (size_ < (power ? length : 2 * length - 1)) {
    size_ *= 2;
  }
  for (int64_t k = 0; k < size_ / 2; ++k) {
    root_.push_back(unit(-static_cast<double>(k) / static_cast<double>(size_)));
  }
  if (power) {
    return;
  }
  filter_.resize(static_cast<size_t>(size_));
  for (int64_t n = 0; n < length; ++n) {
    // n² modulo 2·length keeps the angle small, and so exact.
    const int64_t square = n * n % (2 * length);
    chirp_.push_back(unit(-static_cast<double>(square) / static_cast<double>(2 * length)));
    filter_[static_cast<size_t>(n)] = std::conj(chirp_.back());
    filter_[static_cast<size_t>((size_ - n) % size_)] = std::conj(chirp_.back());
  }
  transform_power_of_two(filter_.data());
}

void Fourier::transform_power_of_two(std::complex<double>* x) const {
  for (int64_t i = 1, j = 0; i < size_; ++i) {  // bit reversal
    int64_t bit = size_ / 2;
    for (; (j & bit) != 0; bit /= 2) {
      j ^= bit;
    }
    j ^= bit;
    if (i < j) {
      std::swap(x[i], x[j]);
    }
  }
  for (int64_t half = 1; half < size_; half *= 2) {
    const int64_t step = size_ / (2 * half);
    for (int64_t start = 0; start < size_; start += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        const std::complex<double> r = root_[static_cast<size_t>(k * step)];
        const std::complex<double> b = x[start + k + half];
        const std::complex<double> rotated{b.real() * r.real() - b.imag() * r.imag(),
                                           b.real() * r.imag() + b.imag() * r.real()};
        x[start + k + half] = x[start + k] - rotated;
        x[start + k] += rotated;
      }
    }
  }
}

void Fourier::transform(std::complex<double>* x) const {
  if (chirp_.empty()) {
    transform_power_of_two(x);
    return;
  }
  std::vector<std::complex<double>> work(static_cast<size_t>(size_));
  for (size_t n = 0; n < chirp_.size(); ++n) {
    work[n] = x[n] * chirp_[n];
  }
  transform_power_of_two(work.data());
  for (size_t k = 0; k < work.size(); ++k) {
    work[k] =
        std::conj(work[k] * filter_[k]);  // conjugate: the inverse transform by the forward one
  }
  transform_power_of_two(work.data());
  for (size_t n = 0; n < chirp_.size(); ++n) {
    x[n] = std::conj(work[n]) / static_cast<double>(size_) * chirp_[n];
  }
}

}  // namespace heed::kernels
