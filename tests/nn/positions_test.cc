#include <gtest/gtest.h>

#include "heed/io.h"
#include "heed/nn.h"
#include "heed/transformer.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

TEST(Positions, SinusoidsAreTheReferences) {
  for (const auto& [name, expected] : load_safetensors(golden("positions/sinusoids.safetensors"))) {
    const SinusoidLayout layout = name.starts_with("interleaved") ? SinusoidLayout::interleaved
                                                                  : SinusoidLayout::concatenated;
    expect_close(sinusoidal_positions(expected.size(0), expected.size(1), layout), expected,
                 elementwise(DType::f32), name);
  }
}

TEST(Positions, RelativeBucketsAreTheReferences) {
  const TensorMap tables = load_safetensors(golden("positions/t5_buckets.safetensors"));
  const std::vector<int64_t> relative = tables.at("relative_position").to_vector<int64_t>();
  for (const auto& [name, table] : tables) {
    if (name == "relative_position") {
      continue;
    }
    const bool large = name.ends_with("32_128");
    const std::vector<int64_t> expected = table.to_vector<int64_t>();
    for (size_t i = 0; i < relative.size(); ++i) {
      EXPECT_EQ(t5_bucket(relative[i], name.starts_with("bidirectional"), large ? 32 : 8,
                          large ? 128 : 20),
                expected[i])
          << name << " at " << relative[i];
    }
  }
}

/// A query's bias does not depend on the pass it comes in.
TEST(Positions, RelativeBiasOfLaterQueriesIsTheRestOfTheSquare) {
  const Tensor table = random_normal({8, 3});
  for (const bool bidirectional : {true, false}) {
    const Tensor all = t5_bias(table, 7, 7, 0, bidirectional, 20);
    const Tensor last = t5_bias(table, 2, 7, 5, bidirectional, 20);
    expect_same_bits(last, slice(all, 2, 5, 7).contiguous());
  }
}

TEST(Embedding, PaddingTakesNoGradient) {
  const Scope scope = Scope::fresh(1);
  const Embedding embedding(scope, 4, 3, Init::normal(1.0), 2);
  const Tensor ids = Tensor::from<int64_t>({0, 2, 2, 3}, {4});
  backward(sum(embedding(ids)));
  const Tensor gradient = embedding.weight().grad();
  expect_close(gradient, {1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1}, elementwise(DType::f32));
}

}  // namespace
}  // namespace heed::test
