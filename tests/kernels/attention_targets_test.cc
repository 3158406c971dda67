// Every SIMD target computes the same attention, whatever its number of lanes.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "support/check.h"

namespace heed {
namespace {

/// Runs one target while it lives.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~OnlyTarget() { hwy::SetSupportedTargetsForTest(0); }
};

struct Case {
  int64_t queries, keys, depth, value_depth;
  bool causal, biased;
};

std::vector<Tensor> run(const Case& given, DType type) {
  manual_seed(5);
  Tensor q = test::random_normal({1, 4, given.queries, given.depth}, type, 1);
  Tensor k = test::random_normal({1, 2, given.keys, given.depth}, type, 2);
  Tensor v = test::random_normal({1, 2, given.keys, given.value_depth}, type, 3);
  AttentionOptions options;
  if (given.causal) {
    options.position = Causal{given.keys - given.queries};
  }
  if (given.biased) {
    options.bias = test::random_normal({4, given.queries, given.keys}, type, 4);
    options.bias.set_requires_grad(true);
    options.dropout = 0.2;
    options.training = true;
    options.softcap = 3.0;
  }
  for (Tensor* leaf : {&q, &k, &v}) {
    leaf->set_requires_grad(true);
  }
  const Tensor y = attention(q, k, v, options);
  backward(y, test::random_normal(y.shape(), type, 6));
  std::vector<Tensor> results{y, q.grad(), k.grad(), v.grad()};
  if (given.biased) {
    results.push_back(options.bias.grad());
  }
  return results;
}

TEST(AttentionTargets, Agree) {
  const std::vector<int64_t> targets = [] {
    std::vector<int64_t> all;
    for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
      all.push_back(rest & -rest);
    }
    return all;
  }();
  for (const Case& given :
       {Case{1, 1, 8, 8, false, false}, Case{7, 9, 8, 24, true, false},
        Case{17, 70, 40, 16, true, true}, Case{65, 65, 16, 7, true, true},
        Case{70, 130, 33, 64, false, true}, Case{64, 64, 64, 64, true, false}}) {
    for (const DType type : {DType::f32, DType::f64}) {
      const auto expected = run(given, type);
      for (const int64_t target : targets) {
        const OnlyTarget only(target);
        const auto actual = run(given, type);
        for (size_t i = 0; i < expected.size(); ++i) {
          test::expect_close(
              actual[i], expected[i],
              type == DType::f64 ? test::elementwise(type) : test::Tolerance{1e-5, 2e-5},
              std::string(hwy::TargetName(target)) + ", result " + std::to_string(i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace heed
