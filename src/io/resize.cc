#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/io.h"

namespace heed {
namespace {

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

/// Keys' cubic with a = -1/2.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) {
    return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  }
  return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * kA : 0.0;
}

/// How each output along one axis is a weighted sum of neighbouring inputs.
struct Weights {
  struct Window {
    int64_t begin = 0;
    int64_t count = 0;
  };
  int64_t width = 0;  // capacity of a window
  std::vector<Window> windows;
  std::vector<double> values;     // [output, width]
  std::vector<int32_t> integers;  // the same in units of 2^-22
};

constexpr int kFractionBits = 22;  // 32 less 8 of the pixel and 2 of overshoot and sign

Weights weights_for(int64_t in, int64_t out, Resample filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0);  // shrinking widens the filter: antialiasing
  const double support = (filter == Resample::bilinear ? 1.0 : 2.0) * stretch;
  Weights weights;
  weights.width = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  weights.windows.resize(static_cast<size_t>(out));
  weights.values.assign(static_cast<size_t>(out * weights.width), 0.0);
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin =
        std::max<int64_t>(0, static_cast<int64_t>(std::floor(center - support + 0.5)));
    const int64_t end = std::min(in, static_cast<int64_t>(std::floor(center + support + 0.5)));
    double* row = weights.values.data() + i * weights.width;
    double sum = 0.0;
    for (int64_t x = begin; x < end; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1.0 / stretch);
      row[x - begin] = filter == Resample::bilinear ? triangle(distance) : cubic(distance);
      sum += row[x - begin];
    }
    for (int64_t x = 0; x < end - begin; ++x) {
      row[x] /= sum;
    }
    weights.windows[static_cast<size_t>(i)] = {begin, end - begin};
  }
  for (const double value : weights.values) {
    const double units = value * (1 << kFractionBits);
    weights.integers.push_back(static_cast<int32_t>(units + (units < 0 ? -0.5 : 0.5)));
  }
  return weights;
}

uint8_t weighted_sum(const uint8_t* in, int64_t stride, const Weights& weights, int64_t i) {
  const auto [begin, count] = weights.windows[static_cast<size_t>(i)];
  const int32_t* factors = weights.integers.data() + i * weights.width;
  int32_t sum = 1 << (kFractionBits - 1);
  for (int64_t x = 0; x < count; ++x) {
    sum += in[(begin + x) * stride] * factors[x];
  }
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

float weighted_sum(const float* in, int64_t stride, const Weights& weights, int64_t i) {
  const auto [begin, count] = weights.windows[static_cast<size_t>(i)];
  const double* factors = weights.values.data() + i * weights.width;
  double sum = 0.0;
  for (int64_t x = 0; x < count; ++x) {
    sum += static_cast<double>(in[(begin + x) * stride]) * factors[x];
  }
  return static_cast<float>(sum);
}

/// [C, H, W] -> [C, H, width]
template <class T>
Tensor resize_rows(const Tensor& image, int64_t width, Resample filter) {
  const Weights weights = weights_for(image.size(2), width, filter);
  Tensor result = Tensor::empty({image.size(0), image.size(1), width}, image.dtype());
  const T* in = image.data<T>();
  T* out = result.data<T>();
  parallel_ranges(image.size(0) * image.size(1), 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t x = 0; x < width; ++x) {
        out[row * width + x] = weighted_sum(in + row * image.size(2), 1, weights, x);
      }
    }
  });
  return result;
}

/// [C, H, W] -> [C, height, W]
template <class T>
Tensor resize_columns(const Tensor& image, int64_t height, Resample filter) {
  const Weights weights = weights_for(image.size(1), height, filter);
  const int64_t width = image.size(2);
  Tensor result = Tensor::empty({image.size(0), height, width}, image.dtype());
  const T* in = image.data<T>();
  T* out = result.data<T>();
  parallel_ranges(image.size(0) * height, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* plane = in + row / height * image.size(1) * width;
      for (int64_t x = 0; x < width; ++x) {
        out[row * width + x] = weighted_sum(plane + x, width, weights, row % height);
      }
    }
  });
  return result;
}

/// Columns go first where they shrink by more than twice what rows do, as in Pillow 13 (earlier
/// ones always began with rows): the rounding between the passes makes the order visible.
template <class T>
Tensor resize_both(Tensor image, int64_t height, int64_t width, Resample filter) {
  const int64_t shorter = image.size(1) - height;
  const bool columns_first = shorter > 0 && shorter > 2 * (image.size(2) - width);
  if (columns_first) {
    image = resize_columns<T>(image, height, filter);
  }
  if (width != image.size(2)) {
    image = resize_rows<T>(image, width, filter);
  }
  return height == image.size(1) ? image : resize_columns<T>(image, height, filter);
}

}  // namespace

Tensor resize_image(const Tensor& image, int64_t height, int64_t width, Resample filter) {
  check(image.rank() == 3 && image.numel() > 0, "resize_image",
        "shape {} is not [channels, height, width]", image.shape());
  check(height > 0 && width > 0 && height <= 65536 && width <= 65536, "resize_image",
        "{} x {} is out of range; 1 to 65536 are possible", height, width);
  check(image.dtype() == DType::u8 || image.dtype() == DType::f32, "resize_image",
        "takes u8 and f32 images, not {}", name_of(image.dtype()));
  const Tensor flat = image.contiguous();
  return image.dtype() == DType::u8 ? resize_both<uint8_t>(flat, height, width, filter)
                                    : resize_both<float>(flat, height, width, filter);
}

}  // namespace heed
