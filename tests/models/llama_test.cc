#include <gtest/gtest.h>

#include "heed/models.h"
#include "support/check.h"

namespace heed::test {
namespace {

/// Looking up the padding token gives no gradient, as in transformers; any other token does.
TEST(Llama, PaddingTokenHasNoGradient) {
  const auto model = create_model(
      R"({"model_type": "llama", "hidden_size": 12, "num_hidden_layers": 1,
          "num_attention_heads": 3, "intermediate_size": 16, "max_position_embeddings": 8,
          "vocab_size": 11, "pad_token_id": 3})",
      1);
  ModelInput input;
  input.input_ids = Tensor::from<int64_t>({1, 3, 2, 3}, {1, 4});
  input.labels = input.input_ids;
  backward(model->forward(input).loss);
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.name == "model.embed_tokens.weight") {
      const std::vector<double> norms =
          sum(mul(parameter.tensor.grad(), parameter.tensor.grad()), 1).to_doubles();
      EXPECT_EQ(norms[3], 0.0);
      EXPECT_GT(norms[1], 0.0);
      EXPECT_GT(norms[2], 0.0);
    }
  }
}

}  // namespace
}  // namespace heed::test
