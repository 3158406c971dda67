#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/check.h"

namespace heed::test {

/// Inputs of a reference: shape and row-major values.
struct Plain {
  Shape shape;
  std::vector<double> values;
};

/// One description of an op. check_op() derives from it: the forward result against the reference
/// on every SIMD target of this machine, for every floating type, at lengths around the vector
/// sizes and on misaligned memory; the gradient in f64; equal bits for any thread count. Where
/// HEED_BENCH_CASES is set it times the case instead (`./dev bench cases`).
struct OpCase {
  std::string name;
  /// The op on tensors of any floating type.
  TensorFn op;
  /// The same by its formula, in doubles and plain loops.
  std::function<std::vector<double>(const std::vector<Plain>&)> reference;
  /// Shapes of the inputs for a length.
  std::function<std::vector<Shape>(int64_t length)> shapes = [](int64_t n) {
    return std::vector<Shape>{{n}};
  };
  double low = -3.0;  ///< range of the inputs
  double high = 3.0;
  int64_t shortest = 0;  ///< the least length that the op takes
  bool differentiable = true;
  /// What rounding may add to the elementwise allowance, for ops that sum `length` terms.
  std::function<double(int64_t length, DType type)> rounding = [](int64_t, DType) { return 0.0; };
};

void check_op(const OpCase& op_case, Where where = Where::current());

/// Runs fn once for every SIMD target that this machine has, best first.
void for_each_target(const std::function<void(const char* name)>& fn);

}  // namespace heed::test
