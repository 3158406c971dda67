#include <gtest/gtest.h>

#include <map>
#include <set>

#include "heed/models.h"
#include "models/gguf/model.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// What another writer did differently.
struct Edit {
  std::set<std::string> without = {};          ///< keys and tensors
  std::map<std::string, Tensor> tensors = {};  ///< added, or instead of what is there
};

/// The model written as GGUF and read again without heed's own keys, as files that others have
/// written are.
std::unique_ptr<Model> as_foreign(const Model& model, const std::filesystem::path& folder,
                                  const Edit& edit = {}) {
  GgufWriter first;
  gguf::add_model(first, model, gguf::StoredTypes(DType::f32));
  first.write(folder / "ours.gguf");
  const GgufFile ours(folder / "ours.gguf");
  GgufWriter writer;
  for (const auto& [key, value] : ours.values()) {
    if (!key.starts_with("heed.") && !edit.without.contains(key)) {
      writer.value(key, value);
    }
  }
  for (const auto& [name, tensor] : ours.tensors()) {
    if (!edit.without.contains(name) && !edit.tensors.contains(name)) {
      writer.tensor(name, tensor);
    }
  }
  for (const auto& [name, tensor] : edit.tensors) {
    writer.tensor(name, tensor);
  }
  writer.write(folder / "foreign.gguf");
  return load_model(folder / "foreign.gguf");
}

Tensor results(const Model& model, const Tensor& ids) {
  ModelInput input;
  input.input_ids = ids;
  if (model.kind() == ModelKind::encoder_decoder) {
    input.decoder_input_ids = slice(ids, 1, 1, 4).contiguous();
  }
  return model.forward(input).logits;
}

void expect_same_results(const Model& model, const std::string& what, const Edit& edit = {}) {
  const TemporaryFolder out;
  const auto read = as_foreign(model, out.path(), edit);
  const Tensor ids = random_indices({2, 7}, model.vocab_size(), 5);
  expect_norm_close(results(*read, ids), results(model, ids), 1e-6, what);
}

/// The metadata alone describe the model.
class ForeignGguf : public testing::TestWithParam<const char*> {};

TEST_P(ForeignGguf, NeedsNoConfigurationOfOurs) {
  expect_same_results(*load_model(golden(std::string("models/") + GetParam())), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Models, ForeignGguf,
                         testing::Values("llama_gqa", "llama_yarn", "mistral_window", "qwen3",
                                         "gemma", "phi", "phi3", "phi3_long", "olmo2", "granite",
                                         "exaone4_global", "starcoder2", "gpt_neox", "gptj",
                                         "bloom", "falcon_grouped", "falcon_multi_query",
                                         "t5_relu"),
                         [](const auto& each) { return each.param; });

/// A decoder of the family with other sizes or rotary settings.
std::string decoder(const std::string& type, int layers, const std::string& more) {
  return R"({"model_type":")" + type + R"(","hidden_size":24,"num_hidden_layers":)" +
         std::to_string(layers) + R"(,"num_attention_heads":2,"num_key_value_heads":1,
      "intermediate_size":20,"max_position_embeddings":32,"vocab_size":37,)" +
         more + "}";
}

TEST(ForeignGguf, KnowsRotaryScalingByKeysAndTensors) {
  const char* settings[] = {
      R"("rope_type":"linear","factor":3.0)",
      R"("rope_type":"yarn","factor":4.0,"original_max_position_embeddings":8)",
      R"("rope_type":"yarn","factor":4.0,"original_max_position_embeddings":8,"beta_fast":9.0,
         "attention_factor":0.7)",
      R"("rope_type":"llama3","factor":4.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
         "original_max_position_embeddings":8)",
      R"("rope_type":"longrope","original_max_position_embeddings":4,
         "short_factor":[1.0,1.5,2.0,2.5,3.0,3.5],"long_factor":[2.0,2.5,3.0,4.0,5.0,6.0])",
      // No longer texts than the model was trained on, but another scale of the scores.
      R"("rope_type":"yarn","factor":1.0,"original_max_position_embeddings":32,
         "attention_factor":0.7)",
      // Factors that do not depend on the length, with and without such a scale.
      R"("rope_type":"longrope","original_max_position_embeddings":32,"attention_factor":1.0,
         "short_factor":[1.0,1.5,2.0,2.5,3.0,3.5],"long_factor":[1.0,1.5,2.0,2.5,3.0,3.5])",
      R"("rope_type":"longrope","original_max_position_embeddings":32,"attention_factor":0.7,
         "short_factor":[1.0,1.5,2.0,2.5,3.0,3.5],"long_factor":[1.0,1.5,2.0,2.5,3.0,3.5])",
  };
  for (const char* each : settings) {
    const std::string more = std::string(R"("rope_parameters":{"rope_theta":500.0,)") + each + "}";
    expect_same_results(*create_model(decoder("llama", 2, more), 3), each);
    expect_same_results(*create_model(decoder("qwen2", 2, more), 3), each);
  }
}

/// Phi-4 mini rotates three quarters of a head, with factors for these.
TEST(ForeignGguf, KnowsRotationOfAPartOfAHead) {
  expect_same_results(*create_model(decoder("phi3", 2, R"("partial_rotary_factor":0.5)"), 3),
                      "half of a head");
  const char* factors = R"("original_max_position_embeddings":4,"rope_scaling":{"type":"longrope",
      "partial_rotary_factor":0.67,"short_factor":[1.0,1.5,2.0,2.5],
      "long_factor":[2.0,2.5,3.0,4.0]})";
  expect_same_results(*create_model(decoder("phi3", 2, factors), 3), "with factors");
}

/// Gemma's files do not say the scale of the scores, StarCoder 2's not the activation, and the
/// first ones of EXAONE 4 not the window.
TEST(ForeignGguf, KnowsWhatFilesLeaveOut) {
  expect_same_results(*create_model(decoder("gemma2", 2,
                                            R"("head_dim":16,"query_pre_attn_scalar":16,
      "sliding_window":3)"),
                                    3),
                      "Gemma 2");
  expect_same_results(*create_model(decoder("gemma2", 46,
                                            R"("head_dim":16,"query_pre_attn_scalar":12,
      "sliding_window":3)"),
                                    3),
                      "Gemma 2 with 46 layers");
  expect_same_results(*create_model(decoder("gemma3_text", 8,
                                            R"("head_dim":16,"query_pre_attn_scalar":16,
      "sliding_window":3,"final_logit_softcapping":5.0,"rope_parameters":{
      "full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":5000.0},
      "sliding_attention":{"rope_type":"default","rope_theta":300.0}})"),
                                    3),
                      "Gemma 3");
  expect_same_results(*create_model(decoder("exaone4", 5, R"("sliding_window":3)"), 3), "EXAONE 4");
  expect_same_results(*create_model(decoder("exaone4", 5, R"("sliding_window":null)"), 3),
                      "EXAONE 4 without windows");
}

/// The same factors for any length leave prefixes as they are, and a cache may slide.
TEST(ForeignGguf, FactorsOfLlama3DoNotDependOnTheLength) {
  const std::string more = R"("rope_parameters":{"rope_theta":500.0,"rope_type":"llama3",
      "factor":4.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
      "original_max_position_embeddings":8})";
  const TemporaryFolder out;
  const auto read = as_foreign(*create_model(decoder("llama", 2, more), 3), out.path());
  EXPECT_NO_THROW(read->set_kv_window({.recent = 8, .sinks = 2}));
}

constexpr const char* kLongFactors =
    R"("rope_parameters":{"rope_theta":500.0,"rope_type":"longrope","attention_factor":1.25,
       "original_max_position_embeddings":32,
       "short_factor":[1.0,1.5,2.0,2.5,3.0,3.5],"long_factor":[2.0,2.5,3.0,4.0,5.0,6.0]})";

/// Without the length that a model was trained on, it is the length that the file names.
TEST(ForeignGguf, LongRopeMayLeaveItsOriginalLengthOut) {
  expect_same_results(*create_model(decoder("llama", 2, kLongFactors), 3), "longrope",
                      {.without = {"llama.rope.scaling.original_context_length"}});
}

TEST(ForeignGguf, LongRopeNeedsBothOfItsTensors) {
  const auto model = create_model(decoder("llama", 2, kLongFactors), 3);
  const TemporaryFolder out;
  for (const char* missing : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    EXPECT_ERROR(as_foreign(*model, out.path(), {.without = {missing}}),
                 "rope.scaling.type 'longrope' is not supported");
  }
}

/// What heed put into its own file is more exact than what the keys say: it is not overwritten.
TEST(ForeignGguf, OwnRotarySettingsStayAsTheyAre) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const std::string more =
        std::string(R"("rope_theta":500.0,")") + name +
        R"(":{"rope_theta":500.0,"rope_type":"llama3","factor":4.0,"low_freq_factor":1.0,
        "high_freq_factor":4.0,"original_max_position_embeddings":8})";
    const auto model = create_model(decoder("llama", 2, more), 3);
    const TemporaryFolder out;
    GgufWriter writer;
    gguf::add_model(writer, *model, gguf::StoredTypes(DType::f32));
    writer.write(out / "ours.gguf");
    const auto read = load_model(out / "ours.gguf");
    EXPECT_EQ(read->config().at(name).string_or("rope_type", ""), "llama3") << name;
    const Tensor ids = random_indices({2, 7}, model->vocab_size(), 5);
    expect_same_bits(results(*read, ids), results(*model, ids), name);
  }
}

/// Keys with a default are taken for it: here a number, layer_norm_epsilon.
TEST(ForeignGguf, NumbersMayBeLeftOut) {
  expect_same_results(*load_model(golden("models/gpt2_lm")), "gpt2",
                      {.without = {"gpt2.attention.layer_norm_epsilon"}});
}

TEST(ForeignGguf, TensorsThatDoNotFitAreNamed) {
  const auto gpt2 = load_model(golden("models/gpt2_lm"));
  const auto llama = create_model(decoder("llama", 1, R"("rope_theta":500.0)"), 3);
  const TemporaryFolder out;
  const auto refused = [&](const Model& model, const Edit& edit, const std::string& part) {
    EXPECT_ERROR(as_foreign(model, out.path(), edit), part);
  };
  const std::string rows = "foreign.gguf: tensor 'token_embd.weight' is missing or no matrix";
  refused(*gpt2, {.without = {"token_embd.weight"}}, rows);
  refused(*gpt2, {.tensors = {{"token_embd.weight", Tensor::zeros({32})}}}, rows);
  // One that would be transposed, and one that nobody knows.
  refused(*gpt2, {.tensors = {{"blk.0.attn_qkv.weight", Tensor::zeros({32})}}},
          "'blk.0.attn_qkv.weight' is [32]");
  refused(*llama, {.tensors = {{"blk.0.unheard_of.weight", Tensor::zeros({2, 32})}}},
          "blk.0.unheard_of.weight");
  // Queries and keys whose rows are no pairs of halves.
  refused(*llama, {.tensors = {{"blk.0.attn_q.weight", Tensor::zeros({22, 24})}}},
          "'blk.0.attn_q.weight' [22, 24] is not 2 heads of an even size");
  refused(*llama, {.tensors = {{"blk.0.attn_k.weight", Tensor::zeros({11, 24})}}},
          "'blk.0.attn_k.weight' [11, 24] is not 1 heads of an even size");
  refused(*llama, {.tensors = {{"blk.0.attn_q.weight", Tensor::zeros({})}}},
          "'blk.0.attn_q.weight' [] is not 2 heads of an even size");
}

}  // namespace
}  // namespace heed::test
