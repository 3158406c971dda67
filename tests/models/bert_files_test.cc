#include <gtest/gtest.h>

#include "models/cases.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// Old files call LayerNorm's weight and bias gamma and beta, and store the tied decoder again.
TEST(BertFiles, OldNamesAndTiedCopies) {
  const Case given = load_case("models/bert_mlm");
  TensorMap old;
  for (const auto& [name, tensor] : load_safetensors(golden("models/bert_mlm/model.safetensors"))) {
    std::string renamed = name;
    const size_t norm = name.find("LayerNorm.");
    if (norm != std::string::npos) {
      renamed =
          name.substr(0, norm) + (name.ends_with("weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
    }
    old.emplace(renamed, tensor);
  }
  old.emplace("cls.predictions.decoder.weight", old.at("bert.embeddings.word_embeddings.weight"));
  old.emplace("cls.seq_relationship.weight", Tensor::zeros({2, 18}));
  old.emplace("bert.pooler.dense.weight", Tensor::zeros({18, 18}));
  const auto model = build_model(given.model->config(), old, "old.safetensors");
  const NoGrad no_grad;
  expect_same_bits(model->forward(given.input).logits, given.model->forward(given.input).logits);
}

TEST(BertFiles, EveryTensorThatDoesNotFitIsNamed) {
  TensorMap tensors = load_safetensors(golden("models/bert_base/model.safetensors"));
  tensors.erase("pooler.dense.bias");
  tensors.insert_or_assign("embeddings.LayerNorm.bias", Tensor::zeros({3}));
  tensors.emplace("surprise", Tensor::zeros({1}));
  const Case given = load_case("models/bert_base");
  try {
    build_model(given.model->config(), tensors, "model.safetensors");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* name : {"pooler.dense.bias", "embeddings.LayerNorm.bias", "surprise"}) {
      EXPECT_NE(text.find(name), std::string::npos) << text;
    }
  }
}

/// all-mpnet-base-v2 and its kind: only the body is there, config.json still names the head.
TEST(BertFiles, BodyAloneUnderTheConfigOfItsTask) {
  const Case given = load_case("models/bert_base");
  std::string config = given.model->config().dump(2);
  const std::string name = "BertModel";
  config.replace(config.find(name), name.size(), "BertForMaskedLM");
  const TensorMap tensors = load_safetensors(golden("models/bert_base/model.safetensors"));
  const auto model = build_model(config, tensors, "model.safetensors");
  const NoGrad no_grad;
  expect_same_bits(model->forward(given.input).last_hidden_state,
                   given.model->forward(given.input).last_hidden_state);
}

TEST(BertFiles, RefusesWhatItCannotDo) {
  auto refused = [](const std::string& field, const std::string& message) {
    const std::string config =
        R"({"model_type": "bert", "hidden_size": 6, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 4,
            "vocab_size": 5, )" +
        field + "}";
    EXPECT_ERROR(create_model(config, 1), message) << field;
  };
  refused(R"("architectures": ["BertForMultipleChoice"])",
          "architecture 'BertForMultipleChoice' is not supported; use BertModel");
  refused(R"("is_decoder": true)", "is_decoder: Bert as a decoder is not supported");
  refused(R"("position_embedding_type": "relative_key")",
          "position_embedding_type must be absolute");
  refused(R"("hidden_dropout_prob": 1.5)",
          "hidden_dropout_prob is 1.5; expected a number from 0 to 1");
}

TEST(VitFiles, RefusesImagesThatDoNotFit) {
  const Case given = load_case("models/vit_base");
  ModelInput input;
  EXPECT_ERROR(given.model->forward(input), "forward: pixel_values is missing");
  input.pixel_values = Tensor::zeros({1, 3, 13, 12});
  EXPECT_ERROR(given.model->forward(input),
               "forward: pixel_values 13 x 12 is no multiple of the patches, 4 x 4");
  input.pixel_values = Tensor::zeros({1, 1, 12, 12});
  EXPECT_ERROR(given.model->forward(input),
               "forward: pixel_values must be floating [batch, 3, height, width], not f32 [1, 1");
}

}  // namespace
}  // namespace heed::test
