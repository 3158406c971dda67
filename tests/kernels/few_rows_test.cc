#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

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
        const Tensor transposed = transpose(w).contiguous();
        for (const int64_t rows : {1, 2, 5, 16, 33, 48, 49, 192, 512}) {
          const Tensor some = slice(x, 0, 0, rows);
          const auto first = [&](const Tensor& all) { return slice(all, 0, 0, rows).contiguous(); };
          expect_same_bits(linear(some, w, {}), first(along), std::to_string(rows) + " rows");
          expect_same_bits(linear(some, transposed, {}, {.layout = WeightLayout::in_out}),
                           first(wide), std::to_string(rows) + " rows, [in, out]");
        }
      });
    }
  }
}

/// Products whose smaller operand does not fit into the shared panels at once, and sums over
/// several blocks of k in a type that cannot hold them.
TEST(FewRows, GiveTheBitsOfLargeProducts) {
  for (const auto& [m, n, k, type] :
       {std::tuple{1400, 1500, 768, DType::f32}, std::tuple{1500, 1400, 768, DType::f32},
        std::tuple{260, 500, 1700, DType::bf16}, std::tuple{500, 260, 1700, DType::bf16}}) {
    const Tensor x = random_normal({m, k}, DType::f32, 6).to(type);
    const Tensor w = random_normal({n, k}, DType::f32, 7);
    const Tensor all = linear(x, w, {});
    for (const int64_t row : {0, m / 2, m - 1}) {
      expect_same_bits(
          linear(slice(x, 0, row, row + 1), w, {}), slice(all, 0, row, row + 1),
          std::to_string(m) + " x " + std::to_string(n) + ", row " + std::to_string(row));
    }
  }
}

/// Weights of a file begin anywhere in a cache line.
TEST(FewRows, WeightsThatBeginInsideALine) {
  constexpr int64_t kColumns = 40;
  for (const int64_t k : {16, 12, 416, 803}) {
    const Tensor x = random_normal({48, k}, DType::f32, 8);
    const Tensor memory = random_normal({kColumns * k + 16}, DType::f32, 9);
    for (const int64_t offset : {0, 1, 4, 8, 12}) {
      const Tensor w = reshape(slice(memory, 0, offset, offset + kColumns * k), {kColumns, k});
      const Tensor transposed = transpose(w).contiguous();
      for_each_target([&](const char* target) {
        for (const int64_t rows : {1, 16, 48}) {
          const Tensor some = slice(x, 0, 0, rows);
          expect_same_bits(linear(some, w, {}),
                           linear(some, transposed, {}, {.layout = WeightLayout::in_out}),
                           fmt::format("{} k {} offset {} rows {}", target, k, offset, rows));
        }
      });
    }
  }
}

/// Σ x[k] · w[k] in the order of 16-bit weights: a chain for every 16th k, then fours, then the
/// fours' sums. `fused`: the machine rounds a multiply-add once.
float sum_of_chains(const float* x, const float* w, int64_t k, bool fused) {
  float chain[16] = {};
  for (int64_t i = 0; i < (k + 15) / 16 * 16; ++i) {
    const float a = i < k ? x[i] : 0.0f;
    const float b = i < k ? w[i] : 0.0f;
    chain[i % 16] = fused ? std::fma(a, b, chain[i % 16]) : a * b + chain[i % 16];
  }
  float four[4];
  for (int i = 0; i < 4; ++i) {
    const float* c = chain + 4 * i;
    four[i] = (c[0] + c[2]) + (c[1] + c[3]);
  }
  return (four[0] + four[2]) + (four[1] + four[3]);
}

TEST(FewRows, SixteenBitWeightsAreAddedInOneOrder) {
  constexpr int64_t kRows = 9;
  constexpr int64_t kColumns = 21;
  for (const int64_t k : {1, 16, 71, 160}) {
    const Tensor x = random_normal({kRows, k}, DType::f32, 6);
    for (const DType type : {DType::f16, DType::bf16}) {
      const Tensor w = random_normal({kColumns, k}, DType::f32, 7).to(type);
      const std::vector<float> wide = w.to(DType::f32).to_vector<float>();
      for_each_target([&](const char* target) {
        const bool fused = !std::string_view(target).starts_with("SS");  // SSSE3, SSE4
        std::vector<float> expected;
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t c = 0; c < kColumns; ++c) {
            expected.push_back(
                sum_of_chains(x.data<float>() + r * k, wide.data() + c * k, k, fused));
          }
        }
        expect_same_bits(linear(x, w, {}), Tensor::from(expected, {kRows, kColumns}), target);
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
