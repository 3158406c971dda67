#include <gtest/gtest.h>

#include <fstream>

#include "heed/train.h"
#include "io/json.h"
#include "models/cases.h"

namespace heed::test {
namespace {

ModelInput batch_of(const TensorMap& batches, int64_t step) {
  TensorMap batch;
  for (const auto& [name, stacked] : batches) {
    batch.emplace(name, select(stacked, 0, step).contiguous());
  }
  ModelInput input = model_input(batch, "batches");
  input.want_logits = false;
  return input;
}

std::vector<NamedTensor> trained_tensors(const Model& model) {
  std::vector<NamedTensor> result;
  for (const Parameter& parameter : model.trainable_parameters()) {
    result.emplace_back(parameter.name, parameter.tensor);
  }
  return result;
}

class Lora : public testing::TestWithParam<const char*> {};

/// From PEFT's own file, which names its model; ends at PEFT's weights.
TEST_P(Lora, TwentyStepsGivePeftsLosses) {
  const std::filesystem::path folder = golden(std::string("lora/") + GetParam());
  const auto model = load_model(folder / "start", {.trainable = true});
  const TensorMap batches = load_safetensors(folder / "batches.safetensors");
  const Metadata settings = safetensors_metadata(folder / "expected.safetensors");
  const std::vector<double> losses =
      load_safetensors(folder / "expected.safetensors").at("losses").to_doubles();
  ASSERT_EQ(losses.size(), 20U);
  const auto number = [&](const char* name) { return std::stod(settings.at(name)); };
  Optimizer optimizer(trained_tensors(*model), {.lr = number("lr"),
                                                .beta1 = number("beta1"),
                                                .beta2 = number("beta2"),
                                                .eps = number("eps"),
                                                .weight_decay = number("weight_decay")});
  for (size_t step = 0; step < losses.size(); ++step) {
    const Tensor loss = model->forward(batch_of(batches, static_cast<int64_t>(step))).loss;
    EXPECT_NEAR(loss.item(), losses[step], 1e-4) << "step " << step;
    optimizer.zero_grad();
    backward(loss);
    optimizer.step();
  }
  const TensorMap last = load_safetensors(folder / "final" / "adapter_model.safetensors");
  const auto trained = trained_tensors(*model);
  ASSERT_EQ(trained.size(), last.size());
  for (const auto& [name, tensor] : trained) {
    ASSERT_TRUE(last.contains(name)) << name;
    expect_norm_close(tensor.detach(), last.at(name), 1e-2, name);
  }
}

/// What heed writes opens again, by PEFT's names, with the same results.
TEST_P(Lora, IsWrittenAsItWasRead) {
  const std::filesystem::path folder = golden(std::string("lora/") + GetParam());
  const auto model = load_model(folder / "final", {.trainable = true});
  const TemporaryFolder work;
  const std::string base = base_model_path(folder / "final").native();
  save_adapter(*model, work.path(), base);
  const TensorMap ours = load_safetensors(work / "adapter_model.safetensors");
  const TensorMap theirs = load_safetensors(folder / "final" / "adapter_model.safetensors");
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) {
    expect_same_bits(ours.at(name), tensor, name);
  }
  const auto again = load_model(work.path());
  const ModelInput input = batch_of(load_safetensors(folder / "batches.safetensors"), 0);
  expect_same_bits(again->forward(input).loss, model->forward(input).loss.detach());
}

/// The merged model needs no adapter and gives its logits.
TEST_P(Lora, MergesIntoTheWeights) {
  const std::filesystem::path folder = golden(std::string("lora/") + GetParam());
  const auto adapted = load_model(folder / "final");
  const auto merged = merge_adapter(*adapted);
  EXPECT_TRUE(merged->adapted_layers().empty());
  ModelInput input = batch_of(load_safetensors(folder / "batches.safetensors"), 0);
  input.want_logits = true;
  const Tensor expected = adapted->forward(input).logits;
  expect_norm_close(merged->forward(input).logits, expected, 1e-5);
  const Tensor base = load_model(base_model_path(folder / "final"))->forward(input).logits;
  EXPECT_GT(sum(abs(sub(base, expected))).item(), 1e-2);  // the adapter does something
}

INSTANTIATE_TEST_SUITE_P(Cases, Lora, testing::Values("llama", "gpt2", "bert", "t5"), case_name);

/// A fresh adapter changes nothing before its first step, and trains only itself.
TEST(LoraAdapter, BeginsAsTheModelItself) {
  for (const char* name : {"models/llama_gqa", "models/gpt2_lm", "models/bert_mlm",
                           "models/t5_relu", "models/gpt_neox", "models/phi3", "models/marian"}) {
    for (const char* targets : {"attention", "all"}) {
      const Case plain = load_case(name);
      const auto model = load_model(
          golden(name), {.lora = LoraOptions{.rank = 2, .alpha = 4.0, .targets = targets}});
      expect_close(model->forward(plain.input).logits.detach(),
                   plain.model->forward(plain.input).logits, {1e-6, 1e-6}, name);
      const auto trained = trained_tensors(*model);
      EXPECT_EQ(trained.size(), 2 * model->adapted_layers().size());
      for (const Parameter& parameter : model->parameters()) {
        EXPECT_FALSE(parameter.tensor.requires_grad()) << name << " " << parameter.name;
      }
      backward(model->forward(plain.input).loss);
      for (const auto& [each, tensor] : trained) {
        if (each.find("lora_B") != std::string::npos) {  // A has no gradient while B is 0
          ASSERT_TRUE(tensor.grad().defined()) << name << " " << each;
        }
      }
    }
  }
}

TEST(LoraAdapter, TargetsAreTheBlocksMatrices) {
  const auto count = [](const char* name, const char* targets) {
    return load_model(golden(name), {.lora = LoraOptions{.targets = targets}})
        ->adapted_layers()
        .size();
  };
  EXPECT_EQ(count("models/llama_gqa", "attention"), 2U * 4);
  EXPECT_EQ(count("models/llama_gqa", "all"), 2U * 7);
  EXPECT_EQ(count("models/gpt2_lm", "attention"), 2U * 2);
  EXPECT_EQ(count("models/gpt2_lm", "all"), 2U * 4);
}

std::string refusal(const std::filesystem::path& model, const LoadOptions& options) {
  try {
    load_model(model, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(LoraAdapter, OfAnotherModelIsRefusedByName) {
  const std::filesystem::path adapter = golden("lora/llama/final");
  const std::string shapes = refusal(golden("models/qwen3"), {.adapter = adapter});
  EXPECT_NE(shapes.find("is an adapter of another model (../../../models/llama_gqa)"),
            std::string::npos)
      << shapes;
  const std::string layers = refusal(golden("models/gpt2_lm"), {.adapter = adapter});
  EXPECT_NE(layers.find("has no layer for 'base_model.model.model.layers.0."), std::string::npos)
      << layers;
  EXPECT_NE(layers.find("(a gpt2)"), std::string::npos) << layers;
}

/// Its folder may describe a head in a config.json of its own.
TEST(LoraAdapter, AWrongHeadIsBlamedOnTheAdaptersFile) {
  const TemporaryFolder work;
  std::filesystem::copy(golden("lora/llama/start"), work.path(),
                        std::filesystem::copy_options::recursive);
  for (const auto& [config, wrong] : std::vector<std::pair<std::string, std::string>>{
           {R"({"problem_type": "guessing"})", "problem_type 'guessing' is not supported"},
           {R"({"num_labels": "many"})", "num_labels is \"many\""},
           {R"({"id2label": {}})", "id2label must name at least one class"},
           {R"({"architectures": [5]})", "architectures[0] is 5"},
           {R"([])", "the text is an array"}}) {
    std::ofstream(work / "config.json") << config;
    const std::string message = refusal(golden("models/llama_gqa"), {.adapter = work.path()});
    EXPECT_TRUE(message.starts_with((work / "config.json").native() + ": " + wrong)) << message;
  }
}

TEST(LoraAdapter, WhatPlainLoraIsNotIsRefused) {
  const TemporaryFolder work;
  const std::filesystem::path start = golden("lora/llama/start");
  const auto with = [&](const char* key, const std::string& value) {
    std::filesystem::copy_file(start / "adapter_model.safetensors",
                               work / "adapter_model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    JsonBuilder config(Json::read(start / "adapter_config.json"));
    config.set(key, Json::parse(value, "value"));
    std::ofstream(work / "adapter_config.json") << config.build("config").dump();
    return refusal(golden("models/llama_gqa"), {.adapter = work.path()});
  };
  EXPECT_NE(with("use_dora", "true").find("use_dora is not supported"), std::string::npos);
  EXPECT_NE(with("peft_type", "\"IA3\"").find("an adapter of type IA3; LORA is supported"),
            std::string::npos);
  EXPECT_NE(with("bias", "\"all\"").find("bias \"all\" is not supported"), std::string::npos);
  EXPECT_NE(with("alpha_pattern", "{\"q_.*\": 3}").find("is a regular expression"),
            std::string::npos);
  EXPECT_NE(refusal(golden("models/llama_gqa"), {.adapter = work / "none"})
                .find("holds no adapter: there is no adapter_config.json"),
            std::string::npos);
}

}  // namespace
}  // namespace heed::test
