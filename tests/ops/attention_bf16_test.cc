// attention() on bf16, whose products may be products of bf16 numbers.
#include <gtest/gtest.h>

#include "ops/attention_grid.h"
#include "support/op_case.h"

namespace heed {
namespace {

using namespace attention_grid;

/// Output and all gradients, in norm: operands, weights and results are rounded to 8 bits. On every
/// SIMD target: those without instructions for bf16 must be seen as such on a CPU that has them.
TEST(AttentionInBf16, FollowsF32WithEveryOptionOnEveryTarget) {
  for (const auto& [queries, keys, depth, value_depth] :
       {std::tuple{5, 7, 8, 8}, {70, 65, 40, 24}, {3, 131, 64, 64}, {129, 64, 33, 31}}) {
    const Inputs inputs = make_inputs({2, 4, 2, queries, keys, depth, value_depth}, DType::bf16);
    const Inputs wide{inputs.q.to(DType::f32), inputs.k.to(DType::f32), inputs.v.to(DType::f32)};
    for (const auto& [name, options] : option_grid(2, 4, queries, keys, DType::bf16)) {
      AttentionOptions wide_options = options;
      if (options.bias.defined()) {
        wide_options.bias = options.bias.to(DType::f32);
      }
      const auto expected = run(wide, wide_options, AttentionKernel::reference);
      const std::string which = name + ", Tq " + std::to_string(queries);
      test::for_each_target([&](const char* target) {
        const auto actual = run(inputs, options, AttentionKernel::flash);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(actual[i].dtype(), DType::bf16);
          test::expect_norm_close(actual[i].to(DType::f32), expected[i], 0x1p-7,
                                  which + ", result " + std::to_string(i) + " on " + target);
        }
      });
    }
  }
}

}  // namespace
}  // namespace heed
