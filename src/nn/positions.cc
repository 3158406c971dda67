#include <cmath>

#include "base/check.h"
#include "heed/nn.h"

namespace heed {

Tensor sinusoidal_positions(int64_t positions, int64_t width, SinusoidLayout layout) {
  check(positions >= 0 && width > 0, "sinusoidal_positions", "{} positions of width {}", positions,
        width);
  Tensor table = Tensor::empty({positions, width});
  float* out = table.data<float>();
  const int64_t half = (width + 1) / 2;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < width; ++i) {
      const bool interleaved = layout == SinusoidLayout::interleaved;
      const int64_t pair = interleaved ? i / 2 : i % half;
      const bool sine = interleaved ? i % 2 == 0 : i < half;
      const double angle =
          static_cast<double>(p) /
          std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(width));
      out[p * width + i] = static_cast<float>(sine ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

Rotary::Rotary(int64_t width, int64_t positions, double theta, bool interleaved)
    : cos_(Tensor::empty({positions, width / 2})),
      sin_(Tensor::empty({positions, width / 2})),
      interleaved_(interleaved) {
  check(width > 0 && width % 2 == 0, "rotary", "head width {} is not even", width);
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(width));
    for (int64_t p = 0; p < positions; ++p) {
      // The product in f32, as the reference computes it: at position 2,000 it matters.
      const float angle = static_cast<float>(p) * static_cast<float>(frequency);
      cos_.data<float>()[p * half + i] = std::cos(angle);
      sin_.data<float>()[p * half + i] = std::sin(angle);
    }
  }
}

Tensor Rotary::operator()(const Tensor& x, const Tensor& positions) const {
  return rotary(x, positions, cos_, sin_, interleaved_);
}

}  // namespace heed
