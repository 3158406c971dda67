#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "support/data.h"

namespace heed::test {
namespace {

using nlohmann::json;

/// Fails unless the configuration is refused as bad data with a message that names all `words`.
void expect_refused(const json& config, const std::vector<std::string>& words) {
  try {
    create_model(config.dump(), 1);
    ADD_FAILURE() << "accepted " << config.dump();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.what();
    }
  }
}

struct Family {
  const char* name;
  json config;
  std::string heads, width, layers, eps;
};

std::vector<Family> families() {
  return {
      {"gpt2",
       {{"model_type", "gpt2"},
        {"n_embd", 12},
        {"n_layer", 1},
        {"n_head", 3},
        {"n_positions", 8},
        {"vocab_size", 11}},
       "n_head",
       "n_embd",
       "n_layer",
       "layer_norm_epsilon"},
      {"llama",
       {{"model_type", "llama"},
        {"hidden_size", 12},
        {"num_hidden_layers", 1},
        {"num_attention_heads", 3},
        {"intermediate_size", 16},
        {"max_position_embeddings", 8},
        {"vocab_size", 11}},
       "num_attention_heads",
       "hidden_size",
       "num_hidden_layers",
       "rms_norm_eps"},
  };
}

class ConfigFaults : public testing::TestWithParam<Family> {
 protected:
  json with(const std::string& key, const json& value) const {
    json config = GetParam().config;
    config[key] = value;
    return config;
  }
};

TEST_P(ConfigFaults, TheConfigurationItselfIsGood) {
  EXPECT_GT(create_model(GetParam().config.dump(), 1)->parameter_count(), 0);
}

TEST_P(ConfigFaults, Fault40HeadsZeroOrNotDividing) {
  const Family& family = GetParam();
  expect_refused(with(family.heads, 0), {"config.json", family.heads});
  expect_refused(with(family.heads, 5), {"config.json", family.heads, "5"});
}

TEST_P(ConfigFaults, Fault41StringsHugeAndNegativeNumbers) {
  const Family& family = GetParam();
  for (const std::string& key : {family.heads, family.width, family.layers}) {
    for (const json& value : {json("abc"), json(1e18), json(int64_t{1} << 62), json(-4), json(2.5),
                              json::array({1}), json(true)}) {
      expect_refused(with(key, value), {"config.json", key});
    }
  }
  json missing = family.config;
  missing.erase(family.width);
  expect_refused(missing, {family.width});
}

TEST_P(ConfigFaults, Fault41NotANumberIsNoJson) {
  std::string text = GetParam().config.dump();
  text.insert(text.size() - 1, ",\"" + GetParam().eps + "\":NaN");
  try {
    create_model(text, 1);
    ADD_FAILURE() << "accepted " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
  }
}

TEST_P(ConfigFaults, Fault42BeyondThisMachinesMemory) {
  const Family& family = GetParam();
  json config = with(family.width, 12 << 18);
  config[family.layers] = 4096;
  expect_refused(config, {"config.json", "GB"});
}

TEST_P(ConfigFaults, Fault43EpsNotAboveZero) {
  const Family& family = GetParam();
  expect_refused(with(family.eps, 0.0), {"config.json", family.eps});
  expect_refused(with(family.eps, -1e-5), {"config.json", family.eps});
}

INSTANTIATE_TEST_SUITE_P(Models, ConfigFaults, testing::ValuesIn(families()),
                         [](const auto& each) { return each.param.name; });

TEST(ConfigFaults, Fault43ThetaNotAboveZero) {
  json config = families()[1].config;
  config["rope_theta"] = 0.0;
  expect_refused(config, {"rope_theta"});
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", -1.0}};
  expect_refused(config, {"rope_theta"});
  config["rope_parameters"] = {{"rope_type", "spiral"}};
  expect_refused(config, {"spiral", "default", "llama3"});
}

TEST(ConfigFaults, RotatedColumnsOfGptjAreEvenAndWithinAHead) {
  json config = {{"model_type", "gptj"}, {"n_embd", 32},     {"n_head", 4},    {"n_layer", 1},
                 {"n_positions", 8},     {"vocab_size", 11}, {"rotary_dim", 4}};
  EXPECT_GT(create_model(config.dump(), 1)->parameter_count(), 0);
  for (const int wrong : {3, 10}) {
    config["rotary_dim"] = wrong;
    expect_refused(config, {"config.json", "rotary_dim is " + std::to_string(wrong)});
  }
}

TEST(ConfigFaults, Fault44UnknownArchitectureListsWhatIsSupported) {
  expect_refused({{"model_type", "mamba"}}, {"mamba", "gpt2", "llama"});
  expect_refused({{"hidden_size", 4}}, {"model_type"});
  expect_refused(json::array(), {"config.json"});
}

TEST(ConfigFaults, KeysThatDoNotDivideHeads) {
  json config = families()[1].config;
  config["num_key_value_heads"] = 2;
  expect_refused(config, {"num_key_value_heads", "2"});
}

TEST(ConfigFaults, AWindowThatIsNoNumberOfPositions) {
  json config = families()[1].config;
  config["model_type"] = "mistral";
  for (const json& bad : {json(0), json(-3), json("wide"), json(2.5)}) {
    config["sliding_window"] = bad;
    expect_refused(config, {"sliding_window"});
  }
}

/// Fault 31 for a folder: one error names what is missing, misshapen and too much.
TEST(ConfigFaults, Fault31TensorsThatDoNotFitAreAllNamed) {
  const auto folder = golden("models/gpt2_lm");
  TensorMap tensors = load_safetensors(folder / "model.safetensors");
  tensors.erase("transformer.ln_f.bias");
  tensors.insert_or_assign("transformer.wpe.weight", Tensor::zeros({3, 24}));
  tensors.emplace("transformer.surplus", Tensor::zeros({2}));
  try {
    build_model(read_file(folder / "config.json"), tensors, "model.safetensors");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::data);
    for (const char* word : {"model.safetensors", "ln_f.bias", "wpe.weight", "[3, 24]", "[16, 24]",
                             "transformer.surplus"}) {
      EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    }
  }
}

/// A model_type that heed does not know is refused with the nearest one that it does.
TEST(UnknownModelType, NamesTheNearestFamily) {
  const std::pair<const char*, const char*> types[] = {
      {R"("model_type": "qwen3_moe")", "the nearest that is: qwen3 "},
      {R"("model_type": "mixtral")", "the nearest that is: mistral "},
      {R"("model_type": "gemma3")", "the nearest that is: gemma3_text "},
      {R"("model_type": "swinv2")", "the nearest that is: swin "},
      {R"("model_type": "zamba", "architectures": ["ZambaForCausalLM"])",
       "the nearest that is: llama "},
      {R"("model_type": "luke", "architectures": ["LukeForMaskedLM"])",
       "the nearest that is: bert "},
      {R"("model_type": "prophetnet", "is_encoder_decoder": true)", "the nearest that is: bart "}};
  for (const auto& [config, wanted] : types) {
    std::string message = "no error";
    try {
      create_model("{" + std::string(config) + "}", 1);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_NE(message.find("is not supported"), std::string::npos) << message;
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace heed::test
