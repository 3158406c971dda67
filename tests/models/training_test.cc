#include <gtest/gtest.h>

#include "heed/train.h"
#include "models/cases.h"

namespace heed::test {
namespace {

class Training : public testing::TestWithParam<const char*> {};

/// A key's bias has no effect on attention and no gradient but rounding noise, which Adam's
/// division turns into steps of full size. GPT-2 keeps it in the middle third of c_attn.
Tensor without_key_bias(const std::string& name, const Tensor& value) {
  if (name.ends_with("key.bias") || name.ends_with("k_proj.bias")) {
    return {};
  }
  if (name.ends_with("c_attn.bias")) {
    const int64_t width = value.size(0) / 3;
    return concat({slice(value, 0, 0, width), slice(value, 0, 2 * width, 3 * width)}, 0);
  }
  return value;
}

TEST_P(Training, TenStepsGiveTheReferenceLossesAndWeights) {
  const std::filesystem::path folder = golden(std::string("training/") + GetParam());
  const auto model = load_model(folder, {.trainable = true});
  const TensorMap batches = load_safetensors(folder / "batches.safetensors");
  const TensorMap expected = load_safetensors(folder / "expected.safetensors");
  const Metadata settings = safetensors_metadata(folder / "expected.safetensors");
  auto number = [&](const char* name) { return std::stod(settings.at(name)); };
  std::vector<NamedTensor> parameters;
  for (const Parameter& parameter : model->parameters()) {
    parameters.emplace_back(parameter.name, parameter.tensor);
  }
  OptimizerOptions options;
  options.lr = number("lr");
  options.beta1 = number("beta1");
  options.beta2 = number("beta2");
  options.eps = number("eps");
  options.weight_decay = number("weight_decay");
  Optimizer optimizer(parameters, options);
  const std::vector<double> losses = expected.at("losses").to_doubles();
  const std::vector<double> norms = expected.at("grad_norms").to_doubles();
  for (size_t step = 0; step < losses.size(); ++step) {
    TensorMap batch;
    for (const auto& [name, stacked] : batches) {
      batch.emplace(name, select(stacked, 0, static_cast<int64_t>(step)).contiguous());
    }
    ModelInput input = model_input(batch, "batches");
    input.want_logits = false;
    const Tensor loss = model->forward(input).loss;
    EXPECT_NEAR(loss.item(), losses[step], kModel * losses[step]) << "step " << step;
    optimizer.zero_grad();
    backward(loss);
    EXPECT_NEAR(optimizer.grad_norm(), norms[step], kModel * norms[step]) << "step " << step;
    optimizer.step();
  }
  const TensorMap final = load_safetensors(folder / "final.safetensors");
  for (const auto& [name, tensor] : parameters) {
    const Tensor want = without_key_bias(name, final.at(name));
    if (want.defined()) {
      expect_norm_close(without_key_bias(name, tensor.detach()), want, kModel, name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Training,
                         testing::Values("bert_mlm", "gpt2", "seq2seq", "rnn_seq2seq"), case_name);

}  // namespace
}  // namespace heed::test
