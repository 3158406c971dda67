#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/tensor.h"

namespace heed::test {
namespace {

using nlohmann::json;

json sizes(const char* model_type) {
  return {{"model_type", model_type},     {"vocab_size", 11},         {"hidden_size", 12},
          {"num_hidden_layers", 2},       {"num_attention_heads", 3}, {"intermediate_size", 16},
          {"max_position_embeddings", 20}};
}

struct Fault {
  const char* model_type;
  json change;
  const char* named;  ///< what the message must name
};

/// What an encoder's configuration may say and heed does not have is refused by the field's name.
TEST(EncoderFaults, AreRefusedByName) {
  const std::vector<Fault> faults = {
      {"bert", {{"is_decoder", true}}, "is_decoder"},
      {"roberta", {{"add_cross_attention", true}}, "add_cross_attention"},
      {"roberta", {{"pad_token_id", nullptr}}, "pad_token_id"},
      {"roberta", {{"pad_token_id", 10}, {"max_position_embeddings", 11}}, "max_position"},
      {"roberta", {{"architectures", {"RobertaForMultipleChoice"}}}, "RobertaForMultipleChoice"},
      {"roberta", {{"hidden_act", "mish"}}, "hidden_act"},
      {"xlm-roberta", {{"position_embedding_type", "relative_key"}}, "position_embedding_type"},
      {"camembert", {{"num_attention_heads", 5}}, "num_attention_heads"},
      {"electra", {{"embedding_size", 0}}, "embedding_size"},
      {"electra",
       {{"architectures", {"ElectraForQuestionAnswering"}}, {"num_labels", 3}},
       "num_labels"},
      {"mpnet", {{"relative_attention_num_buckets", 16}}, "relative_attention_num_buckets"},
      {"albert", {{"num_hidden_groups", 3}}, "num_hidden_groups"},
      {"albert", {{"inner_group_num", 0}}, "inner_group_num"},
      {"modernbert", {{"layer_types", {"full_attention", "linear_attention"}}}, "layer_types"},
      {"modernbert", {{"layer_types", {"full_attention"}}}, "layer_types"},
      {"modernbert", {{"classifier_pooling", "max"}}, "classifier_pooling"},
      {"deberta-v2", {{"relative_attention", true}, {"pos_att_type", "c2p|p2p"}}, "pos_att_type"},
      {"deberta-v2", {{"norm_rel_ebd", "rms"}}, "norm_rel_ebd"},
      {"deberta-v2", {{"conv_kernel_size", 4}}, "conv_kernel_size"},
      {"deberta-v2", {{"position_buckets", 1}}, "position_buckets"},
      {"deberta-v2", {{"attention_head_size", 7}}, "attention_head_size"},
      {"longformer", {{"attention_window", 5}}, "attention_window"},
      {"longformer", {{"attention_window", {4, 4, 4}}}, "attention_window"},
      {"big_bird", {{"attention_type", "sparse"}}, "attention_type"},
      {"fnet", {{"use_tpu_fourier_optimizations", true}}, "use_tpu_fourier_optimizations"},
      {"nystromformer", {{"inv_coeff_init_option", true}}, "inv_coeff_init_option"},
      {"nystromformer", {{"conv_kernel_size", 8}}, "conv_kernel_size"},
  };
  for (const Fault& fault : faults) {
    json config = sizes(fault.model_type);
    config.update(fault.change);
    try {
      create_model(config.dump(), 1);
      ADD_FAILURE() << "accepted " << config.dump();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
      EXPECT_NE(std::string(error.what()).find(fault.named), std::string::npos)
          << "'" << fault.named << "' is not in: " << error.what();
    }
  }
}

/// A fresh model of every encoder family runs forward and backward.
TEST(Encoders, StartFresh) {
  for (const char* type :
       {"bert", "roberta", "xlm-roberta", "camembert", "electra", "mpnet", "albert", "modernbert",
        "deberta-v2", "longformer", "big_bird", "fnet", "nystromformer"}) {
    const auto model = create_model(sizes(type).dump(), 3);
    ModelInput input;
    input.input_ids = Tensor::from(std::vector<int64_t>{3, 4, 5, 6, 7, 8}, {1, 6});
    input.labels = input.input_ids;
    input.training = true;
    const ModelOutput output = model->forward(input);
    ASSERT_TRUE(output.loss.defined()) << type;
    backward(output.loss);
    for (const Parameter& parameter : model->parameters()) {
      const bool unread = parameter.name.find("_global") != std::string::npos ||
                          parameter.name.find("pooler") != std::string::npos;
      EXPECT_TRUE(unread || parameter.tensor.grad().defined()) << type << " " << parameter.name;
    }
  }
}

}  // namespace
}  // namespace heed::test
