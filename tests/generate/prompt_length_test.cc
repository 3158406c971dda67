#include <gtest/gtest.h>

#include "generate/prefill.h"
#include "support/check.h"

namespace heed::test {
namespace {

/// A prompt that is read in chunks gets the angles of its whole length, as in one pass.
TEST(PromptLength, ScalesRotaryAnglesOfEveryChunk) {
  const std::string settings[] = {
      R"("max_position_embeddings":300,"rope_scaling":{"rope_type":"dynamic","factor":4.0})",
      R"("max_position_embeddings":1200,"rope_scaling":{"rope_type":"longrope",
         "original_max_position_embeddings":520,"short_factor":[1.0,1.0,1.0,1.0],
         "long_factor":[1.0,2.0,3.0,4.0]})"};
  for (const std::string& each : settings) {
    const auto model = create_model(R"({"model_type":"llama","hidden_size":16,"num_hidden_layers":2,
        "num_attention_heads":2,"intermediate_size":20,"vocab_size":37,)" +
                                        each + "}",
                                    3);
    EXPECT_EQ(model->context_length(), 1200) << each;
    ModelInput input;
    input.input_ids = random_indices({1, 700}, 37, 5);  // more than one chunk
    const Tensor expected = slice(model->forward(input).logits, 1, 699, 700);
    SequenceCache cache;
    const Tensor actual =
        start_sequence(*model, {}, input.input_ids.to_vector<int64_t>(), 800, cache);
    expect_norm_close(actual, reshape(expected, {1, 37}), 1e-5, each);
  }
}

}  // namespace
}  // namespace heed::test
