#include <gtest/gtest.h>

#include <cmath>

#include "heed/inspect.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed {
namespace {

Tensor matrix(std::initializer_list<float> values, int64_t rows) {
  return Tensor::from(values, {rows, static_cast<int64_t>(values.size()) / rows});
}

TEST(ValidateWeights, AcceptsWhatAttentionGives) {
  AttentionOptions options;
  options.position = Causal{};
  const Tensor x = test::random_normal({2, 3, 40, 8}, DType::f32, 1);
  const WeightsReport report = validate_weights(attention_steps(x, x, x, options).weights, true);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.rows, 240);
  EXPECT_EQ(report.future, 0);
  EXPECT_LT(report.worst_sum_error, 1e-5);
  EXPECT_TRUE(validate_weights(matrix({0, 0, 0.5, 0.5}, 2)).ok()) << "an empty row is no fault";
}

TEST(ValidateWeights, FindsEveryFault) {
  const auto problem = [](const Tensor& weights, bool causal) {
    const WeightsReport report = validate_weights(weights, causal);
    return report.problems.empty() ? std::string() : report.problems[0];
  };
  EXPECT_NE(problem(matrix({0.5, 0.4, 0.5, 0.5}, 2), false).find("sum"), std::string::npos);
  EXPECT_NE(problem(matrix({1.5, -0.5}, 1), false).find("0 … 1"), std::string::npos);
  EXPECT_NE(problem(matrix({NAN, 1}, 1), false).find("NaN"), std::string::npos);
  EXPECT_NE(problem(matrix({0.75, 0.25, 0.5, 0.5}, 2), true).find("later"), std::string::npos);
  EXPECT_EQ(problem(matrix({1, 0, 0.5, 0.5}, 2), true), "");
  EXPECT_ERROR(validate_weights(Tensor::zeros({3})),
               "validate_weights: weights must be floating [.., queries, keys]");
}

TEST(Patterns, EachIsFound) {
  const Tensor eye = matrix({1, 0, 0, 0, 1, 0, 0, 0, 1}, 3);
  EXPECT_EQ(name_of_pattern(attention_patterns(eye)), "diagonal");
  EXPECT_EQ(attention_patterns(eye).entropy, 0);
  const Tensor back = matrix({1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, 4);
  EXPECT_DOUBLE_EQ(attention_patterns(back).previous, 0.75);
  EXPECT_EQ(name_of_pattern(attention_patterns(back)), "previous token");
  const Tensor first = matrix({1, 0, 0, 1, 0, 0, 1, 0, 0}, 3);
  EXPECT_EQ(name_of_pattern(attention_patterns(first)), "first token");
  EXPECT_DOUBLE_EQ(attention_patterns(first).mean_distance, 1.0);
  const Tensor even = Tensor::full({8, 8}, 0.125);
  EXPECT_EQ(name_of_pattern(attention_patterns(even)), "uniform");
  EXPECT_DOUBLE_EQ(attention_patterns(even).entropy, 3.0);
  EXPECT_DOUBLE_EQ(attention_patterns(even).uniform, 1.0);
  EXPECT_DOUBLE_EQ(attention_patterns(even, 0, 0).local, 0.125);
  EXPECT_DOUBLE_EQ(attention_patterns(matrix({0, 0, 1}, 1), 2).diagonal, 1.0) << "a cache before";
}

TEST(Patterns, NeighboursAreLocalAtEverySize) {
  for (int64_t n = 3; n <= 40; ++n) {  // 1/3 on each neighbour, as the tutorial draws it
    const Tensor near = Tensor::zeros({n, n});
    const Tensor causal = Tensor::zeros({n, n});
    for (int64_t i = 0; i < n; ++i) {
      const int64_t low = std::max<int64_t>(i - 1, 0), high = std::min(i + 1, n - 1);
      for (int64_t j = low; j <= high; ++j) {
        near.data<float>()[i * n + j] = 1.0F / static_cast<float>(high - low + 1);
      }
      for (int64_t j = 0; j <= i; ++j) {
        causal.data<float>()[i * n + j] = 1.0F / static_cast<float>(i + 1);
      }
    }
    EXPECT_EQ(name_of_pattern(attention_patterns(near)), "local") << n;
    if (n >= 24) {  // the first rows of a causal map have hardly a choice
      EXPECT_EQ(name_of_pattern(attention_patterns(causal)), "uniform") << n;
    }
  }
  // A key that no row looks at is padding: the others may still be uniform.
  EXPECT_EQ(name_of_pattern(attention_patterns(
                matrix({0.25F, 0.25F, 0.25F, 0.25F, 0, 0.25F, 0.25F, 0.25F, 0.25F, 0}, 2), 7, 0)),
            "uniform");
}

TEST(Patterns, TopKeysOfARow) {
  const auto rows = top_attended(matrix({0.1f, 0.6f, 0.3f, 0.4f, 0.2f, 0.4f}, 2), 2);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][0].key, 1);
  EXPECT_NEAR(rows[0][0].weight, 0.6, 1e-7);
  EXPECT_EQ(rows[0][1].key, 2);
  EXPECT_EQ(rows[1][0].key, 0) << "of equals the first";
  EXPECT_EQ(rows[1][1].key, 2);
  EXPECT_EQ(top_attended(matrix({1, 0}, 1), 5)[0].size(), 2u);
}

TEST(Cost, IsWhatTheTutorialsSay) {
  constexpr double kMegabyte = 1 << 20;
  EXPECT_DOUBLE_EQ(attention_matrix_bytes(1024, DType::f32) / kMegabyte, 4.0);
  EXPECT_DOUBLE_EQ(attention_matrix_bytes(16384, DType::f32) / kMegabyte, 1024.0);
  EXPECT_DOUBLE_EQ(attention_matrix_bytes(1024, DType::f16, 12, 2) / kMegabyte, 48.0);
  EXPECT_DOUBLE_EQ(self_attention_cost(100, 512).operations, 100.0 * 100 * 512);
  EXPECT_DOUBLE_EQ(recurrent_cost(100, 512).operations, 100.0 * 512 * 512);
  EXPECT_DOUBLE_EQ(recurrent_cost(100, 512).sequential_steps, 100);
  EXPECT_DOUBLE_EQ(convolution_cost(100, 512, 3).operations, 3 * 100.0 * 512 * 512);
  EXPECT_DOUBLE_EQ(convolution_cost(81, 512, 3).path_length, 4);
  EXPECT_DOUBLE_EQ(self_attention_cost(100, 512).path_length, 1);
}

}  // namespace
}  // namespace heed
