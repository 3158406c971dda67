// Values of config.json and of GGUF metadata at their edges.
#include <gtest/gtest.h>

#include <fstream>

#include "heed/models.h"
#include "models/common.h"
#include "models/files.h"
#include "models/rope.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

Json config(const std::string& text) { return Json::parse(text, "config.json"); }

TEST(ConfigEdges, ActivationsByEveryName) {
  const std::pair<const char*, Activation> cases[] = {
      {"gelu", Activation::gelu},
      {"gelu_python", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},
      {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh},
      {"gelu_accurate", Activation::gelu_tanh},
      {"gelu_python_tanh", Activation::gelu_tanh},
      {"relu", Activation::relu},
      {"silu", Activation::silu},
      {"swish", Activation::silu},
      {"tanh", Activation::tanh},
      {"quick_gelu", Activation::quick_gelu},
      {"sigmoid", Activation::sigmoid},
      {"linear", Activation::none},
  };
  for (const auto& [name, activation] : cases) {
    EXPECT_EQ(activation_of(config(std::string(R"({"act":")") + name + "\"}"), "act", "relu"),
              activation)
        << name;
  }
  EXPECT_ERROR(activation_of(config(R"({"act":"mish"})"), "act", "relu"),
               "'mish' is not supported");
}

TEST(ConfigEdges, PaddingAndArchitectures) {
  EXPECT_EQ(padding_token(config("{}"), 3, 10), 3);
  EXPECT_EQ(padding_token(config(R"({"pad_token_id":null})"), 3, 10), std::nullopt);
  EXPECT_EQ(padding_token(config(R"({"pad_token_id":-1})"), 3, 10), 9);
  EXPECT_EQ(padding_token(config(R"({"pad_token_id":4})"), 3, 10), 4);
  EXPECT_EQ(architecture(config(R"({"architectures":["A","B"]})")), "A");
  for (const char* text :
       {"{}", R"({"architectures":null})", R"({"architectures":[]})", R"({"architectures":"A"})"}) {
    EXPECT_EQ(architecture(config(text)), "") << text;
  }
}

TEST(ConfigEdges, IdsAndMasksOfABatch) {
  const Tensor mask;
  EXPECT_ERROR(token_rows(Tensor::zeros({2}, DType::i64), mask, 5, true, "input_ids"),
               "input_ids must be whole numbers [batch, length], not i64 [2]");
  EXPECT_ERROR(token_rows(Tensor::zeros({1, 2}), mask, 5, true, "input_ids"), "not f32 [1, 2]");
  EXPECT_EQ(token_rows(Tensor::zeros({1, 2}, DType::i32), mask, 5, true, "input_ids").length, 2);
  EXPECT_ERROR(token_rows(Tensor::full({1, 1}, 5, DType::i64), mask, 5, true, "input_ids"),
               "id 5 at [0, 0] is outside the vocabulary of 5");
  EXPECT_ERROR(token_rows(Tensor::full({1, 1}, -1, DType::i64), mask, 5, true, "input_ids"),
               "id -1 at [0, 0] is outside the vocabulary of 5");
  EXPECT_ERROR(token_rows(Tensor::zeros({1, 1}, DType::i64), Tensor::full({1, 1}, 2.0), 5, true,
                          "input_ids"),
               "attention_mask holds 2; 0 or 1 is wanted");
}

double factor_of(const std::string& scaling) {
  return rotary_attention_factor(
      config(R"({"max_position_embeddings":1024,"rope_scaling":)" + scaling + "}"), "");
}

TEST(ConfigEdges, AttentionFactorsOfScaledPositions) {
  const std::string yarn = R"({"rope_type":"yarn","original_max_position_embeddings":256,)";
  EXPECT_EQ(rotary_attention_factor(config("{}"), ""), 1.0);
  EXPECT_EQ(factor_of("null"), 1.0);
  for (const char* wrong : {R"("none")", "8", "true", "[1]"}) {
    EXPECT_ERROR(factor_of(wrong), "rope_scaling is ");
    EXPECT_ERROR(
        rotary_theta(config(R"({"rope_theta":1e4,"rope_parameters":)" + std::string(wrong) + "}"),
                     ""),
        "expected an object");
  }
  EXPECT_EQ(factor_of(yarn + R"("factor":1.0})"), 1.0);
  EXPECT_NEAR(factor_of(yarn + R"("factor":4.0})"), 0.1 * std::log(4.0) + 1.0, 1e-12);
  EXPECT_NEAR(factor_of(yarn + R"("factor":4.0,"mscale":2.0})"), 0.1 * std::log(4.0) + 1.0, 1e-12);
  EXPECT_NEAR(factor_of(yarn + R"("factor":4.0,"mscale":2.0,"mscale_all_dim":1.0})"),
              (0.2 * std::log(4.0) + 1.0) / (0.1 * std::log(4.0) + 1.0), 1e-12);
  const std::string su = R"({"type":"su","short_factor":[1.0],"long_factor":[2.0],)"
                         R"("original_max_position_embeddings":)";
  EXPECT_EQ(factor_of(su + "1024}"), 1.0);
  EXPECT_NEAR(factor_of(su + "256}"), std::sqrt(1.0 + std::log(4.0) / std::log(256.0)), 1e-12);
  EXPECT_EQ(factor_of(R"({"rope_type":"linear","factor":2.0})"), 1.0);
}

TEST(ConfigEdges, FrequenciesOfScaledPositions) {
  EXPECT_ERROR(rotary_frequencies(config("{}"), 3, ""), "need an even number of columns");
  EXPECT_ERROR(rotary_frequencies(config("{}"), 0, ""), "need an even number of columns");
  // Without rounding, and where both bounds meet.
  const auto yarn = [](const std::string& more) {
    return rotary_frequencies(
        config(R"({"max_position_embeddings":1024,"rope_scaling":{"rope_type":"yarn","factor":4.0,)"
               R"("original_max_position_embeddings":256)" +
               more + "}}"),
        8, "");
  };
  EXPECT_NE(yarn(R"(,"truncate":false)"), yarn(""));
  EXPECT_EQ(yarn(R"(,"truncate":false,"beta_fast":1.0,"beta_slow":1.0)").size(), 4u);
  // Local layers keep their own base and are not scaled.
  const Json gemma = config(R"({"rope_local_base_freq":10.0,"rope_theta":1000.0,)"
                            R"("rope_scaling":{"rope_type":"linear","factor":8.0}})");
  EXPECT_EQ(rotary_theta(gemma, "sliding_attention"), 10.0);
  EXPECT_EQ(rotary_theta(gemma, "full_attention"), 1000.0);
  EXPECT_EQ(rotary_frequencies(gemma, 2, "sliding_attention"), (std::vector<double>{1.0}));
  EXPECT_EQ(rotary_frequencies(gemma, 2, "full_attention"), (std::vector<double>{0.125}));
  EXPECT_EQ(rotary_theta(config(R"({"rope_theta":7.0})"), "sliding_attention"), 7.0);
  const std::string same = R"({"rope_scaling":{"rope_type":"longrope","short_factor":[1.0],)";
  EXPECT_EQ(rotary_long_from(config(same + R"("long_factor":[1.0]}})")), 0);
  EXPECT_EQ(rotary_long_from(config(same + R"("long_factor":[2.0],)"
                                           R"("original_max_position_embeddings":64}})")),
            64);
}

TEST(ConfigEdges, FilesBesideTheConfiguration) {
  const TemporaryFolder folder;
  EXPECT_ERROR(find_model_files(folder.path(), {}), "holds no config.json");
  std::ofstream(folder / "config.json") << "[]";
  std::ofstream(folder / "generation_config.json") << "{}";
  EXPECT_EQ(find_model_files(folder.path(), {}).config.dump(), "[]");  // refused where it is read
  std::filesystem::create_directory(folder / "adapter");
  std::ofstream(folder / "adapter/adapter_config.json")
      << R"({"base_model_name_or_path":")" << folder.path().native() << "\"}";
  EXPECT_ERROR(find_model_files(folder / "adapter", folder / "adapter"), "is an adapter itself");
  EXPECT_FALSE(generation_rules(config("{}")).has_value());
  std::ofstream(folder / "config.json") << "{}";
  std::ofstream(folder / "generation_config.json") << "[]";
  const Json odd = find_model_files(folder.path(), {}).config;
  EXPECT_FALSE(generation_rules(odd).has_value());  // no object: no rules
}

}  // namespace
}  // namespace heed::test
