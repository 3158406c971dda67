#pragma once

#include <cmath>
#include <limits>

#include "heed/tensor.h"

namespace heed::test {

/// How far a result may lie from its reference. One place for all tests.
struct Tolerance {
  double relative;
  double absolute;
};

/// Elementwise work: torch.testing.assert_close's figures.
inline Tolerance elementwise(DType type) {
  switch (type) {
    case DType::f64:
      return {1e-7, 1e-7};
    case DType::f16:
      return {1e-3, 1e-5};
    case DType::bf16:
      return {1.6e-2, 1e-5};
    default:
      return {1.3e-6, 1e-5};
  }
}

/// Gradients against finite differences in f64: torch.autograd.gradcheck's figures.
inline constexpr double kGradStep = 1e-6;
inline constexpr Tolerance kGradient{1e-3, 1e-5};

/// Models against PyTorch: share of the tensor's norm.
inline constexpr double kModel = 1e-4;

/// A reduction over n terms whose absolute values sum to `norm`: the error grows with the norm.
inline double reduction(double norm, double n, DType type) {
  const double eps = type == DType::f64 ? std::numeric_limits<double>::epsilon()
                                        : std::numeric_limits<float>::epsilon();
  return 4 * eps * norm * std::log2(n + 2);
}

}  // namespace heed::test
