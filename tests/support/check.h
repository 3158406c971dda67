#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "heed/tensor.h"
#include "support/tolerance.h"

namespace heed::test {

/// The line of the call, as a default argument. std::source_location is not there with Clang 14.
struct Where {
  static Where current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file;
  int line;
};

/// Fails where |actual - expected| > absolute + relative * |expected| anywhere, and says where it
/// is worst. Infinities and NaN must match. The dtypes may differ; the shapes may not.
void expect_close(const Tensor& actual, const Tensor& expected, Tolerance tolerance,
                  std::string_view what = "", Where where = Where::current());
void expect_close(const Tensor& actual, const std::vector<double>& expected, Tolerance tolerance,
                  std::string_view what = "", Where where = Where::current());

/// Fails where the norm of the difference is more than `share` of the expected norm: whole models.
void expect_norm_close(const Tensor& actual, const Tensor& expected, double share = kModel,
                       std::string_view what = "", Where where = Where::current());

/// Fails where any bit differs.
void expect_same_bits(const Tensor& actual, const Tensor& expected, std::string_view what = "",
                      Where where = Where::current());

/// Independent numbers from a seed: normal, or uniform in [low, high).
Tensor random_normal(const Shape& shape, DType type = DType::f32, uint64_t seed = 1);
Tensor random_uniform(const Shape& shape, double low, double high, DType type = DType::f32,
                      uint64_t seed = 1);
/// Whole numbers in [0, limit), i64.
Tensor random_indices(const Shape& shape, int64_t limit, uint64_t seed = 1);

using TensorFn = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares the gradient of fn's result (times fixed random weights, summed) with central
/// differences, for every element of every f64 input. Inputs of other types are handed on as they
/// are. fn must be deterministic: set the seed inside where it draws random numbers.
void check_gradient(const TensorFn& fn, const std::vector<Tensor>& inputs,
                    std::string_view what = "", Where where = Where::current());

/// Runs fn with 1, 2 and 5 threads and fails where its results differ in any bit.
void expect_same_for_any_thread_count(const std::function<std::vector<Tensor>()>& fn,
                                      Where where = Where::current());

}  // namespace heed::test
