#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/cases.h"
#include "support/error.h"

namespace heed::test {
namespace {

using nlohmann::json;

/// A folder's weights and configuration, to be changed.
struct Parts {
  explicit Parts(const std::string& name)
      : given(load_case("models/" + name)),
        config(json::parse(given.model->config().dump())),
        tensors(load_safetensors(golden("models/" + name + "/model.safetensors"))) {}

  void rename(const std::string& from, const std::string& to) {
    tensors.emplace(to, tensors.at(from));
    tensors.erase(from);
  }
  std::unique_ptr<Model> build() const {
    return build_model(config.dump(), tensors, "model.safetensors");
  }
  Tensor logits() const { return given.model->forward(given.input).logits; }

  Case given;
  json config;
  TensorMap tensors;
  NoGrad no_grad;
};

/// Values that are the shape's own, and not all alike.
Tensor other_values(const Tensor& like) {
  Tensor x = like.clone();
  for (int64_t i = 0; i < x.numel(); ++i) {
    x.data<float>()[i] = 0.5F - x.data<float>()[i];
  }
  return x;
}

/// safetensors' save_model() keeps the name that comes first in the alphabet.
TEST(Ties, AnEmbeddingMayBeStoredAsTheHead) {
  struct Named {
    const char* model;
    const char* words;
    const char* stored;
  };
  for (const Named& each :
       {Named{"gpt2_lm", "transformer.wte.weight", "lm_head.weight"},
        Named{"llama_tied", "model.embed_tokens.weight", "lm_head.weight"},
        Named{"bert_mlm", "bert.embeddings.word_embeddings.weight",
              "cls.predictions.decoder.weight"},
        Named{"t5_relu", "shared.weight", "encoder.embed_tokens.weight"},
        Named{"marian", "model.shared.weight", "lm_head.weight"},
        Named{"vit_gpt2", "decoder.transformer.wte.weight", "decoder.lm_head.weight"}}) {
    SCOPED_TRACE(each.model);
    Parts parts(each.model);
    parts.rename(each.words, each.stored);
    expect_same_bits(parts.build()->forward(parts.given.input).logits, parts.logits());
  }
}

/// transformers 5 saves T5 1.1 with tie_word_embeddings true, its own lm_head notwithstanding.
TEST(Ties, AHeadWithOtherValuesIsItsOwn) {
  for (const auto& [name, words, head] :
       {std::tuple{"gpt2_lm", "transformer.wte.weight", "lm_head.weight"},
        std::tuple{"t5_relu", "shared.weight", "lm_head.weight"}}) {
    SCOPED_TRACE(name);
    Parts parts(name);
    const Tensor own = other_values(parts.tensors.at(words));
    parts.tensors.emplace(head, own);
    const auto model = parts.build();
    parts.config["tie_word_embeddings"] = false;
    parts.config["scale_decoder_outputs"] = true;
    const Tensor untied = parts.build()->forward(parts.given.input).logits;
    expect_same_bits(model->forward(parts.given.input).logits, untied);
    EXPECT_FALSE(json::parse(model->config().dump())["tie_word_embeddings"].get<bool>());
    // The same values twice are one matrix.
    parts.config["tie_word_embeddings"] = true;
    parts.tensors.insert_or_assign(head, parts.tensors.at(words).clone());
    const auto tied = parts.build();
    expect_same_bits(tied->forward(parts.given.input).logits, parts.logits());
    EXPECT_TRUE(json::parse(tied->config().dump())["tie_word_embeddings"].get<bool>());
  }
}

/// transformers 5 writes all three matrices of an untied Marian, and reads the sides' own.
TEST(Ties, MariansSidesMayHaveTheirOwnEmbeddings) {
  Parts parts("marian");
  const Tensor shared = parts.tensors.at("model.shared.weight");
  for (const char* side : {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight",
                           "lm_head.weight"}) {
    parts.tensors.emplace(side, shared.clone());
  }
  parts.config["tie_word_embeddings"] = false;
  parts.tensors.insert_or_assign("model.shared.weight", other_values(shared));
  expect_same_bits(parts.build()->forward(parts.given.input).logits, parts.logits());
}

/// Words of the decoder's own come with decoder.bias; predictions.bias then goes unused.
TEST(Ties, BertsUntiedWordsHaveTheDecodersBias) {
  Parts parts("bert_mlm");
  parts.config["tie_word_embeddings"] = false;
  parts.tensors.emplace("cls.predictions.decoder.weight",
                        parts.tensors.at("bert.embeddings.word_embeddings.weight"));
  parts.rename("cls.predictions.bias", "cls.predictions.decoder.bias");
  parts.tensors.emplace("cls.predictions.bias",
                        other_values(parts.tensors.at("cls.predictions.decoder.bias")));
  const auto model = parts.build();
  expect_same_bits(model->forward(parts.given.input).logits, parts.logits());
}

TEST(Heads, WithoutANameTheTensorsDecide) {
  Parts parts("llama_gqa");
  parts.config["architectures"] = nullptr;
  expect_same_bits(parts.build()->forward(parts.given.input).logits, parts.logits());
  parts.tensors.erase("lm_head.weight");
  ModelInput input;
  input.input_ids = parts.given.input.input_ids;
  EXPECT_TRUE(parts.build()->forward(input).last_hidden_state.defined());
}

TEST(Heads, ThoseForOtherWorkAreRefusedByName) {
  for (const auto& [model, name] :
       {std::pair{"gpt2_lm", "GPT2ForQuestionAnswering"},
        std::pair{"gpt2_lm", "GPT2DoubleHeadsModel"},
        std::pair{"llama_gqa", "LlamaForQuestionAnswering"}, std::pair{"t5_relu", "T5EncoderModel"},
        std::pair{"whisper", "WhisperForAudioClassification"},
        std::pair{"t5_relu", "T5ForQuestionAnswering"}}) {
    Parts parts(model);
    parts.config["architectures"] = {name};
    try {
      parts.build();
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(Heads, BothStacksWorkWithoutOne) {
  for (const auto& [model, name] :
       {std::pair{"t5_relu", "T5Model"}, std::pair{"whisper", "WhisperModel"}}) {
    Parts parts(model);
    parts.config["architectures"] = {name};
    parts.tensors.erase("lm_head.weight");
    parts.tensors.erase("proj_out.weight");
    ModelInput input = parts.given.input;
    EXPECT_ERROR(parts.build()->forward(input), "this model has no LM head for labels or logits");
    input.decoder_input_ids = random_indices({input.labels.size(0), 3}, 20);
    input.labels = {};
    input.decoder_attention_mask = {};
    EXPECT_EQ(parts.build()->forward(input).last_hidden_state.size(1), 3) << name;
  }
}

/// A captioner's halves may still name the models they were taken from.
TEST(Heads, ACaptionersHalvesHaveTheirPartNotTheirName) {
  Parts parts("vit_gpt2");
  parts.config["encoder"]["architectures"] = {"ViTForImageClassification"};
  parts.config["decoder"]["architectures"] = {"GPT2Model"};
  expect_same_bits(parts.build()->forward(parts.given.input).logits, parts.logits());
}

TEST(Inputs, WhatADecoderDoesNotReadIsRefused) {
  for (const char* name : {"gpt2_lm", "llama_gqa"}) {
    Case given = load_case(std::string("models/") + name);
    given.input.token_type_ids = given.input.input_ids;
    EXPECT_ERROR(given.model->forward(given.input), "takes no token_type_ids");
  }
  Case given = load_case("models/vit_gpt2");
  given.input.input_ids = Tensor::zeros({2, 3}, DType::i64);
  EXPECT_ERROR(given.model->forward(given.input),
               "forward: a vision-encoder-decoder takes no input_ids");
}

TEST(VitFiles, ThePoolerHasItsOwnActivation) {
  Parts parts("vit_base");
  const int64_t width = parts.given.model->hidden_size();
  parts.tensors.emplace("pooler.dense.weight", random_normal({5, width}, DType::f32, 1));
  parts.tensors.emplace("pooler.dense.bias", random_normal({5}, DType::f32, 2));
  parts.config["pooler_output_size"] = 5;
  const Tensor pooled = parts.build()->forward(parts.given.input).pooler_output;
  parts.config["pooler_act"] = "relu";
  const Tensor relu = parts.build()->forward(parts.given.input).pooler_output;
  for (int64_t i = 0; i < pooled.numel(); ++i) {
    EXPECT_NEAR(std::tanh(relu.data<float>()[i]), std::max(pooled.data<float>()[i], 0.0F), 1e-6);
  }
}

/// pad_token_id null: every embedding takes its gradient.
TEST(Padding, NoPaddingTokenDropsNoGradient) {
  const Case given = load_case("models/bert_mlm");
  json config = json::parse(given.model->config().dump());
  const TensorMap tensors = load_safetensors(golden("models/bert_mlm/model.safetensors"));
  ModelInput input;
  input.input_ids = Tensor::from(std::vector<int64_t>{0, 3, 4}, {1, 3});
  input.labels = Tensor::from(std::vector<int64_t>{-100, 5, 6}, {1, 3});
  const auto lookup = [&](const json& padding) {
    config["pad_token_id"] = padding;
    config["tie_word_embeddings"] = false;
    TensorMap all = tensors;
    all.emplace("cls.predictions.decoder.weight", all.at("bert.embeddings.word_embeddings.weight"));
    const auto model = build_model(config.dump(), all, "file", {.trainable = true});
    backward(model->forward(input).loss);
    for (const Parameter& parameter : model->parameters()) {
      if (parameter.name == "bert.embeddings.word_embeddings.weight") {
        return parameter.tensor.grad().data<float>()[0];
      }
    }
    return 0.0F;
  };
  EXPECT_EQ(lookup(0), 0.0F);
  EXPECT_NE(lookup(nullptr), 0.0F);
}

}  // namespace
}  // namespace heed::test
