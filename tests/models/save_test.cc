#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

using nlohmann::json;

class Save : public testing::TestWithParam<const char*> {};

TEST_P(Save, RoundTripKeepsEveryBit) {
  const auto folder = golden(std::string("models/") + GetParam());
  const auto model = load_model(folder);
  const TemporaryFolder out;
  save_model(*model, out.path());
  const TensorMap before = load_safetensors(folder / "model.safetensors");
  const TensorMap after = load_safetensors(out / "model.safetensors");
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    expect_same_bits(after.at(name), tensor, name);
  }
  const json config = json::parse(read_file(out / "config.json"));
  const json original = json::parse(read_file(folder / "config.json"));
  for (const auto& [key, value] : original.items()) {
    EXPECT_EQ(config.at(key), value) << key;
  }
  EXPECT_EQ(load_model(out.path())->parameter_count(), model->parameter_count());
}

INSTANTIATE_TEST_SUITE_P(
    Models, Save,
    testing::Values("gpt2_lm", "gpt2_base", "gpt2_untied", "llama_gqa", "llama_tied", "llama_theta",
                    "mistral_window", "vit_gpt2", "bert_mlm", "bert_tag", "bert_qa",
                    "distilbert_classify", "roberta_mlm", "xlm_roberta_rank", "camembert_mlm",
                    "electra_mlm", "electra_replaced", "mpnet_base", "mpnet_qa", "albert_tag",
                    "albert_classify", "t5_gated", "marian", "marian_positions", "vit_classify",
                    "deit_teacher", "dinov2_resized", "beit_shared", "bart", "bart_base",
                    "bart_classify", "mbart", "m2m_100", "pegasus", "whisper"),
    [](const auto& each) { return each.param; });

TEST(SaveModel, WritesWhatTransformersLooksFor) {
  const char* text = R"({"model_type":"gpt2","n_embd":12,"n_layer":1,"n_head":3,"n_positions":8,
                         "vocab_size":11,"bos_token_id":1,"eos_token_id":2})";
  const TemporaryFolder out;
  save_model(*create_model(text, 1), out.path(), DType::bf16);
  const json config = json::parse(read_file(out / "config.json"));
  EXPECT_EQ(config.at("architectures"), json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(config.at("torch_dtype"), "bfloat16");
  const json generation = json::parse(read_file(out / "generation_config.json"));
  EXPECT_EQ(generation.at("eos_token_id"), 2);
  for (const auto& [name, tensor] : load_safetensors(out / "model.safetensors")) {
    EXPECT_EQ(name_of(tensor.dtype()), "bf16") << name;
  }
}

TEST(SaveModel, RefusesQuantisedFolders) {
  const TemporaryFolder out;
  EXPECT_ERROR(save_model(*load_model(golden("models/gpt2_lm")), out.path(), DType::q8_0),
               "save_model: a folder holds f32, f16 or bf16, not q8_0");
}

}  // namespace
}  // namespace heed::test
