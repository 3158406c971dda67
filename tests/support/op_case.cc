#include "support/op_case.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "heed/tensor.h"

namespace heed::test {
namespace {

/// A copy whose first element lies `offset` elements after an aligned address.
Tensor misaligned(const Tensor& tensor, int64_t offset) {
  Shape padded{tensor.numel() + offset};
  const Tensor room = Tensor::empty(padded, tensor.dtype());
  Tensor view = room.alias(tensor.shape(), contiguous_strides(tensor.shape()), offset);
  view.copy_from(tensor);
  return view;
}

std::vector<Tensor> inputs_of(const OpCase& op_case, int64_t length, DType type) {
  std::vector<Tensor> inputs;
  uint64_t seed = static_cast<uint64_t>(length) * 10 + 1;
  for (const Shape& shape : op_case.shapes(length)) {
    inputs.push_back(random_uniform(shape, op_case.low, op_case.high, type, seed++));
  }
  return inputs;
}

void check_forward(const OpCase& op_case, DType type, int64_t length, int64_t offset,
                   const char* target, Where where) {
  std::vector<Tensor> inputs = inputs_of(op_case, length, type);
  std::vector<Plain> plain;
  for (Tensor& input : inputs) {
    plain.push_back({input.shape(), input.to_doubles()});
    input = misaligned(input, offset);
  }
  const Tensor actual = op_case.op(inputs);
  const std::vector<double> expected = op_case.reference(plain);
  Tolerance tolerance = elementwise(type);
  tolerance.absolute += op_case.rounding(length, type);
  expect_close(actual, expected, tolerance,
               op_case.name + " " + std::string(name_of(type)) + " " + target + " length " +
                   std::to_string(length) + " offset " + std::to_string(offset),
               where);
}

/// Median seconds of a run.
double time_of(const std::function<void()>& run) {
  run();
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    const double start = seconds_now();
    run();
    times.push_back(seconds_now() - start);
  }
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return times[4];
}

/// One line: how long the case takes an element, forward and back, for every floating type.
void bench_op(const OpCase& op_case) {
  constexpr int64_t kLength = int64_t{1} << 22;
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    std::vector<Tensor> inputs = inputs_of(op_case, kLength, type);
    const double forward = time_of([&] { op_case.op(inputs); });
    std::string back;
    if (op_case.differentiable) {
      for (Tensor& input : inputs) {
        input.set_requires_grad(true);
      }
      const Tensor y = op_case.op(inputs);
      const Tensor dy = Tensor::full(y.shape(), 1.0, y.dtype());
      const double seconds = time_of([&] {
        for (Tensor& input : inputs) {
          input.set_grad(Tensor());
        }
        backward(y, dy, /*keep_history=*/true);
      });
      back = fmt::format("   gradient {:7.3f} ns", seconds / kLength * 1e9);
    }
    fmt::print("{:24} {:5} forward {:7.3f} ns{} an element\n", op_case.name, name_of(type),
               forward / kLength * 1e9, back);
    std::fflush(stdout);
  }
}

/// Around one, two and four vectors of 4, 8 and 16 lanes.
std::vector<int64_t> lengths_from(int64_t shortest) {
  std::vector<int64_t> lengths;
  for (int64_t n = shortest; n <= 36; ++n) {
    lengths.push_back(n);
  }
  lengths.insert(lengths.end(), {63, 64, 65, 127, 128, 131, 259});
  return lengths;
}

}  // namespace

void for_each_target(const std::function<void(const char*)>& fn) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    fn(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
}

void check_op(const OpCase& op_case, Where where) {
  if (std::getenv("HEED_BENCH_CASES") != nullptr) {
    bench_op(op_case);
    return;
  }
  for_each_target([&](const char* target) {
    for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const int64_t length : lengths_from(op_case.shortest)) {
        for (const int64_t offset : {0, 1, 3}) {
          check_forward(op_case, type, length, offset, target, where);
          if (testing::Test::HasFailure()) {
            return;  // one report is enough to start from
          }
        }
      }
    }
    if (op_case.differentiable) {
      for (const int64_t length : {1, 3, 9, 18}) {
        check_gradient(op_case.op, inputs_of(op_case, length, DType::f64),
                       op_case.name + " " + target, where);
      }
    }
  });
  expect_same_for_any_thread_count(
      [&] { return std::vector{op_case.op(inputs_of(op_case, 40001, DType::f32))}; }, where);
}

}  // namespace heed::test
