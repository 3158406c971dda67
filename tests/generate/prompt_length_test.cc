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

/// A text that becomes long goes on as if it had been the prompt: LongRoPE's angles change for all
/// of it.
TEST(PromptLength, ATextThatBecomesLongIsReadAgain) {
  const auto model = create_model(R"({"model_type":"llama","hidden_size":16,"num_hidden_layers":2,
      "num_attention_heads":2,"intermediate_size":20,"vocab_size":37,"initializer_range":0.3,
      "max_position_embeddings":64,"rope_scaling":{"rope_type":"longrope",
      "original_max_position_embeddings":12,"short_factor":[1.0,1.0,1.0,1.0],
      "long_factor":[1.0,2.0,3.0,4.0]}})",
                                  3);
  const auto continued = [&](std::vector<int64_t> prompt, int64_t count) {
    Scheduler scheduler(*model);
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = count;
    request.sampling.temperature = 0.0;
    std::vector<SampledToken> tokens;
    request.on_token = [&](const SampledToken& token) {
      tokens.push_back(token);
      return true;
    };
    scheduler.add(std::move(request));
    scheduler.run();
    return tokens;
  };
  std::vector<int64_t> prompt = {5, 9, 2, 30, 11, 17, 8};
  const std::vector<SampledToken> whole = continued(prompt, 20);
  ASSERT_EQ(whole.size(), 20u);
  for (size_t i = 0; i < 6; ++i) {  // 13 tokens: one more than the short length
    prompt.push_back(whole[i].id);
  }
  const std::vector<SampledToken> rest = continued(prompt, 14);
  for (size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(rest[i].id, whole[i + 6].id) << i;
    EXPECT_NEAR(rest[i].log_probability, whole[i + 6].log_probability, 1e-5) << i;
  }
}

}  // namespace
}  // namespace heed::test
