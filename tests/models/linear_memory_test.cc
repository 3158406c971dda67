// Memory of long sequences: linear in the length for the families that promise it, counted in bytes
// of tensors, so that the result does not depend on the machine.
#include <gtest/gtest.h>

#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "support/check.h"

namespace heed::test {
namespace {

struct Family {
  const char* name;
  const char* config;
};

constexpr const char* kSizes = R"("vocab_size":40,"hidden_size":16,"num_hidden_layers":2,
    "num_attention_heads":2,"intermediate_size":32,"max_position_embeddings":8200,)";
constexpr const char* kStacks = R"("vocab_size":40,"d_model":16,"encoder_layers":2,
    "decoder_layers":2,"encoder_attention_heads":2,"decoder_attention_heads":2,
    "encoder_ffn_dim":32,"decoder_ffn_dim":32,"max_position_embeddings":8200,)";

const Family kFamilies[] = {
    {"longformer", R"("model_type":"longformer","attention_window":64,"pad_token_id":1})"},
    {"led", R"("model_type":"led","attention_window":64,"max_encoder_position_embeddings":8200,
        "max_decoder_position_embeddings":64})"},
    {"big_bird", R"("model_type":"big_bird","block_size":16,"num_random_blocks":2})"},
    {"fnet", R"("model_type":"fnet"})"},
    {"nystromformer", R"("model_type":"nystromformer","num_landmarks":32,
        "segment_means_seq_len":8192,"conv_kernel_size":5})"},
    {"performer", R"("model_type":"heed-performer","head":"mlm","num_random_features":16,
        "pre_norm":true})"},
    {"performer_causal", R"("model_type":"heed-performer","head":"lm","num_random_features":16,
        "pre_norm":true})"},
};

std::unique_ptr<Model> make(const Family& family) {
  const bool stacks = std::string_view(family.config).find("led") != std::string_view::npos ||
                      std::string_view(family.config).find("heed-") != std::string_view::npos;
  return create_model(std::string("{") + (stacks ? kStacks : kSizes) + family.config, 1);
}

/// The most bytes in tensors while one sequence is read, and where `trains` its gradient computed.
int64_t bytes_of_pass(const Model& model, int64_t length, bool trains) {
  ModelInput input;
  input.input_ids = random_indices({1, length}, 35, 3);
  for (int64_t i = 0; i < length; ++i) {
    input.input_ids.data<int64_t>()[i] += 5;
  }
  if (model.kind() == ModelKind::encoder_decoder) {
    input.labels = input.decoder_input_ids = random_indices({1, 8}, 40, 4);
  } else {
    input.labels = input.input_ids;
  }
  input.want_logits = false;
  input.training = trains;
  release_cached_memory();
  const int64_t before = memory_stats().in_use;
  reset_peak_memory();
  if (trains) {
    backward(model.forward(input).loss);
  } else {
    const NoGrad no_grad;
    model.forward(input);
  }
  const int64_t peak = memory_stats().peak - before;
  for (const Parameter& parameter : model.parameters()) {
    Tensor weight = parameter.tensor;
    weight.set_grad({});
  }
  return peak;
}

class LinearMemory : public testing::TestWithParam<Family> {};

TEST_P(LinearMemory, GrowsWithTheLength) {
  const auto model = make(GetParam());
  for (const bool trains : {false, true}) {
    bytes_of_pass(*model, 512, trains);  // gradients and tables that stay
    const auto small = static_cast<double>(bytes_of_pass(*model, 2048, trains));
    const auto large = static_cast<double>(bytes_of_pass(*model, 8192, trains));
    EXPECT_LT(large / small, 4.3) << (trains ? "training " : "inference ") << small;
    EXPECT_GT(large / small, 2.0);
  }
}
INSTANTIATE_TEST_SUITE_P(Models, LinearMemory, testing::ValuesIn(kFamilies),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace heed::test
