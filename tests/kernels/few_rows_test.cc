#include <gtest/gtest.h>

#include <limits>

#include "heed/ops.h"
#include "support/check.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

/// The floating product with weights of every type and layout: the same bits in any batch. Except
/// for 16-bit weights along k, which have an order of their own, also those of the weights in f32.
TEST(FewRows, GiveTheBitsOfManyRows) {
  for (const auto& [n, k] :
       {std::pair{1, 1}, std::pair{67, 33}, std::pair{300, 803}, std::pair{33, 8}}) {
    const Tensor x = random_normal({512, k}, DType::f32, 4);
    const Tensor plain = random_normal({n, k}, DType::f32, 5);
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      const Tensor w = plain.to(type);
      for_each_target([&](const char* target) {
        SCOPED_TRACE(std::string(target) + " " + std::string(name_of(type)));
        const Tensor wide = linear(x, w.to(DType::f32), {});
        const Tensor along = linear(x, w, {});
        expect_norm_close(along, wide, 1e-6);
        const Tensor turned = transpose(w).contiguous();
        for (const int64_t rows : {1, 2, 5, 16, 33, 192, 193, 512}) {
          const Tensor some = slice(x, 0, 0, rows);
          const auto first = [&](const Tensor& all) { return slice(all, 0, 0, rows).contiguous(); };
          expect_same_bits(linear(some, w, {}), first(along), std::to_string(rows) + " rows");
          expect_same_bits(linear(some, turned, {}, {.layout = WeightLayout::in_out}), first(wide),
                           std::to_string(rows) + " rows, [in, out]");
        }
      });
    }
  }
}

/// Weights at the ends of what the short types hold.
TEST(FewRows, UnusualWeights) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const DType type : {DType::f16, DType::bf16}) {
    const Tensor w =
        Tensor::from({1e-7f, -6e-8f, 65504.0f, inf, -inf, 0.0f, -0.0f, 1.5f}, {8, 1}).to(type);
    const Tensor wide = expand(w, {8, 16}).contiguous();
    const std::vector<float> plain = w.to(DType::f32).to_vector<float>();
    for_each_target([&](const char* target) {
      for (const int64_t rows : {1, 3, 40}) {
        const Tensor x = Tensor::full({rows, 16}, 0.5);
        std::vector<float> expected;  // exact: 16 equal numbers are added in pairs
        for (int64_t i = 0; i < rows * 8; ++i) {
          expected.push_back(0.0f + 8.0f * plain[static_cast<size_t>(i % 8)]);
        }
        expect_same_bits(linear(x, wide, {}), Tensor::from(expected, {rows, 8}), target);
      }
    });
  }
}

}  // namespace
}  // namespace heed::test
