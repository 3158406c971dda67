// attention() on bf16, whose products may be products of bf16 numbers.
#include <gtest/gtest.h>

#include "ops/attention_grid.h"

namespace heed {
namespace {

using namespace attention_grid;

/// Output and all gradients, in norm: operands, weights and results are rounded to 8 bits.
TEST(AttentionInBf16, FollowsF32WithEveryOption) {
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
      const auto actual = run(inputs, options, AttentionKernel::flash);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(actual[i].dtype(), DType::bf16);
        test::expect_norm_close(
            actual[i].to(DType::f32), expected[i], 0x1p-7,
            name + ", result " + std::to_string(i) + ", Tq " + std::to_string(queries));
      }
    }
  }
}

}  // namespace
}  // namespace heed
