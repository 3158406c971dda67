#include "models/patch_grid.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "models/common.h"

namespace heed {

Grid sides(const Json& config, std::string_view key) {
  const Json value = config.at(key);
  if (!value.is_array()) {
    const int64_t side = size_of(config, key);
    return {side, side};
  }
  constexpr int64_t kMaxSide = 1 << 16;
  const std::vector<int64_t> both = value.integers(1, kMaxSide);
  check_data(both.size() == 2, config.file(), "{} must be a number or [height, width]", key);
  return {both[0], both[1]};
}

namespace {

/// Cubic convolution with a = -0.75 at distance x, as PyTorch's bicubic.
double cubic(double x) {
  constexpr double kA = -0.75;
  x = std::abs(x);
  if (x <= 1.0) {
    return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  }
  return x < 2.0 ? ((x - 5.0) * x + 8.0) * x * kA - 4.0 * kA : 0.0;
}

/// [to, from] weights that resize a line by bicubic interpolation, align_corners = false; places
/// outside read the border.
std::vector<double> resize_weights(int64_t from, int64_t to) {
  std::vector<double> weights(static_cast<size_t>(from * to), 0.0);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double place = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto first = static_cast<int64_t>(std::floor(place)) - 1;
    for (int64_t j = first; j < first + 4; ++j) {
      const int64_t source = std::clamp<int64_t>(j, 0, from - 1);
      weights[static_cast<size_t>(i * from + source)] += cubic(place - static_cast<double>(j));
    }
  }
  return weights;
}

}  // namespace

Tensor resize_matrix(Grid from, Grid to) {
  const std::vector<double> rows = resize_weights(from.height, to.height);
  const std::vector<double> columns = resize_weights(from.width, to.width);
  Tensor matrix = Tensor::empty({to.count(), from.count()});
  float* out = matrix.data<float>();
  for (int64_t i = 0; i < to.count(); ++i) {
    for (int64_t j = 0; j < from.count(); ++j) {
      const double row = rows[static_cast<size_t>(i / to.width * from.height + j / from.width)];
      const double column =
          columns[static_cast<size_t>(i % to.width * from.width + j % from.width)];
      *out++ = static_cast<float>(row * column);
    }
  }
  return matrix;
}

}  // namespace heed
