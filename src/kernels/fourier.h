#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace heed::kernels {

/// A discrete Fourier transform of one length, any length: powers of two by Cooley and Tukey's
/// steps, others by Bluestein's as a convolution of a power of two.
class Fourier {
 public:
  explicit Fourier(int64_t length);
  /// In place: x[k] = Σ x[n] exp(-2πi·k·n / length).
  void transform(std::complex<double>* x) const;

 private:
  void transform_power_of_two(std::complex<double>* x) const;

  int64_t size_;                              // the power of two that is transformed
  std::vector<std::complex<double>> root_;    // exp(-2πi·k / size), k < size/2
  std::vector<std::complex<double>> chirp_;   // exp(-πi·n² / length); empty for powers of two
  std::vector<std::complex<double>> filter_;  // transform of the conjugate chirp, over size
};

}  // namespace heed::kernels
