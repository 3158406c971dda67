#include "support/check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"

namespace heed::test {
namespace {

std::string place_of(int64_t flat, const Shape& shape) {
  Shape index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index.to_string();
}

/// The error as a fraction of the tolerance: more than 1 is a failure.
double share_of_allowance(double actual, double expected, Tolerance tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) {
    return std::isnan(expected) == std::isnan(actual) ? 0.0 : INFINITY;
  }
  if (actual == expected) {
    return 0.0;
  }
  return std::abs(actual - expected) /
         (tolerance.absolute + tolerance.relative * std::abs(expected));
}

void compare(const std::vector<double>& actual, const std::vector<double>& expected,
             const Shape& shape, Tolerance tolerance, std::string_view what, Where where) {
  double worst = 0.0;
  size_t worst_at = 0;
  size_t failures = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double share = share_of_allowance(actual[i], expected[i], tolerance);
    failures += share > 1.0 ? 1 : 0;
    if (share > worst) {
      worst = share;
      worst_at = i;
    }
  }
  if (failures > 0) {
    std::ostringstream text;
    text.precision(17);
    text << what << ": shape " << shape.to_string() << ", " << failures << " of " << expected.size()
         << " too far; worst at " << place_of(static_cast<int64_t>(worst_at), shape)
         << ": expected " << expected[worst_at] << ", actual " << actual[worst_at] << ", error "
         << worst << " times the allowance";
    ADD_FAILURE_AT(where.file, where.line) << text.str();
  }
}

Tensor random_tensor(const Shape& shape, DType type, uint64_t seed,
                     const std::function<double(Random&)>& draw) {
  Random random(seed, 77);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& value : values) {
    value = draw(random);
  }
  return Tensor::from(values, shape).to(type);
}

double weighted_sum(const Tensor& y, const std::vector<double>& weights) {
  const std::vector<double> values = y.to_doubles();
  double sum = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i] * weights[i];
  }
  return sum;
}

}  // namespace

void expect_close(const Tensor& actual, const Tensor& expected, Tolerance tolerance,
                  std::string_view what, Where where) {
  if (!actual.defined() || !expected.defined() || actual.shape() != expected.shape()) {
    ADD_FAILURE_AT(where.file, where.line)
        << what << ": expected shape "
        << (expected.defined() ? expected.shape().to_string() : "undefined") << ", actual "
        << (actual.defined() ? actual.shape().to_string() : "undefined");
    return;
  }
  compare(actual.to_doubles(), expected.to_doubles(), expected.shape(), tolerance, what, where);
}

void expect_close(const Tensor& actual, const std::vector<double>& expected, Tolerance tolerance,
                  std::string_view what, Where where) {
  if (!actual.defined() || actual.numel() != static_cast<int64_t>(expected.size())) {
    ADD_FAILURE_AT(where.file, where.line)
        << what << ": expected " << expected.size() << " elements, actual shape "
        << (actual.defined() ? actual.shape().to_string() : "undefined");
    return;
  }
  compare(actual.to_doubles(), expected, actual.shape(), tolerance, what, where);
}

void expect_norm_close(const Tensor& actual, const Tensor& expected, double share,
                       std::string_view what, Where where) {
  ASSERT_TRUE(actual.defined() && expected.defined()) << what;
  ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string()) << what;
  const std::vector<double> a = actual.to_doubles();
  const std::vector<double> e = expected.to_doubles();
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - e[i]) * (a[i] - e[i]);
    norm += e[i] * e[i];
  }
  if (!(std::sqrt(difference) <= share * std::sqrt(norm))) {
    ADD_FAILURE_AT(where.file, where.line)
        << what << ": shape " << expected.shape().to_string() << ", norm of the difference "
        << std::sqrt(difference) << ", " << std::sqrt(difference) / std::sqrt(norm)
        << " of the expected norm; allowed " << share;
  }
}

void expect_same_bits(const Tensor& actual, const Tensor& expected, std::string_view what,
                      Where where) {
  ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string()) << what;
  ASSERT_EQ(name_of(actual.dtype()), name_of(expected.dtype())) << what;
  const Tensor a = actual.contiguous();
  const Tensor e = expected.contiguous();
  if (std::memcmp(a.raw(), e.raw(), static_cast<size_t>(a.bytes())) != 0) {
    ADD_FAILURE_AT(where.file, where.line)
        << what << ": shape " << a.shape().to_string() << ", bits differ";
    compare(a.to_doubles(), e.to_doubles(), a.shape(), {0.0, 0.0}, what, where);
  }
}

Tensor random_normal(const Shape& shape, DType type, uint64_t seed) {
  return random_tensor(shape, type, seed, [](Random& random) { return random.normal(); });
}

Tensor random_uniform(const Shape& shape, double low, double high, DType type, uint64_t seed) {
  return random_tensor(shape, type, seed,
                       [=](Random& random) { return low + (high - low) * random.uniform(); });
}

Tensor random_indices(const Shape& shape, int64_t limit, uint64_t seed) {
  return random_tensor(shape, DType::i64, seed, [=](Random& random) {
    return static_cast<double>(random.below(static_cast<uint64_t>(limit)));
  });
}

void check_gradient(const TensorFn& fn, const std::vector<Tensor>& inputs, std::string_view what,
                    Where where) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    const bool differentiable = input.defined() && input.dtype() == DType::f64;
    leaves.push_back(differentiable ? input.clone() : input);
    if (differentiable) {
      leaves.back().set_requires_grad(true);
    }
  }
  const Tensor y = fn(leaves);
  const Tensor weights = random_normal(y.shape(), y.dtype(), 4242);
  backward(y, weights);
  const std::vector<double> w = weights.to_doubles();
  const NoGrad no_grad;
  for (size_t n = 0; n < leaves.size(); ++n) {
    if (!leaves[n].requires_grad()) {
      continue;
    }
    std::vector<double> numeric(static_cast<size_t>(leaves[n].numel()));
    double* values = leaves[n].data<double>();
    for (size_t i = 0; i < numeric.size(); ++i) {
      const double before = values[i];
      values[i] = before + kGradStep;
      const double up = weighted_sum(fn(leaves), w);
      values[i] = before - kGradStep;
      const double down = weighted_sum(fn(leaves), w);
      values[i] = before;
      numeric[i] = (up - down) / (2 * kGradStep);
    }
    const Tensor gradient = leaves[n].grad();
    const std::string name = std::string(what) + " gradient of input " + std::to_string(n);
    if (!gradient.defined()) {
      compare(std::vector<double>(numeric.size(), 0.0), numeric, leaves[n].shape(), kGradient, name,
              where);
    } else {
      expect_close(gradient, Tensor::from(numeric, leaves[n].shape()), kGradient, name, where);
    }
  }
}

void expect_same_for_any_thread_count(const std::function<std::vector<Tensor>()>& fn, Where where) {
  const int before = thread_count();
  set_thread_count(1);
  const std::vector<Tensor> expected = fn();
  for (const int threads : {2, 5}) {
    set_thread_count(threads);
    const std::vector<Tensor> actual = fn();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      expect_same_bits(
          actual[i], expected[i],
          "result " + std::to_string(i) + " with " + std::to_string(threads) + " threads", where);
    }
  }
  set_thread_count(before);
}

}  // namespace heed::test
