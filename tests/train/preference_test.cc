#include "train/preference.h"

#include <gtest/gtest.h>

#include "heed/io.h"
#include "heed/models.h"
#include "heed/train.h"
#include "models/forward.h"
#include "support/data.h"

namespace heed::test {
namespace {

/// Twenty steps of DPO on a LoRA adapter against the same in PyTorch and PEFT.
TEST(Preference, TwentyStepsGiveTheReferenceLosses) {
  const std::filesystem::path folder = golden("lora/dpo");
  const auto model = load_model(folder / "start", {.trainable = true});
  const auto reference = load_model(base_model_path(folder / "start"));
  const TensorMap batches = load_safetensors(folder / "batches.safetensors");
  const Metadata settings = safetensors_metadata(folder / "expected.safetensors");
  const std::vector<double> losses =
      load_safetensors(folder / "expected.safetensors").at("losses").to_doubles();
  const auto number = [&](const char* name) { return std::stod(settings.at(name)); };
  std::vector<NamedTensor> trained;
  for (const Parameter& parameter : model->trainable_parameters()) {
    trained.emplace_back(parameter.name, parameter.tensor);
  }
  Optimizer optimizer(trained, {.lr = number("lr"),
                                .beta1 = number("beta1"),
                                .beta2 = number("beta2"),
                                .eps = number("eps"),
                                .weight_decay = number("weight_decay")});
  ASSERT_EQ(losses.size(), 20U);
  for (size_t step = 0; step < losses.size(); ++step) {
    const auto of_step = [&](const char* name) {
      return select(batches.at(name), 0, static_cast<int64_t>(step)).contiguous();
    };
    ModelInput pairs;
    pairs.input_ids = of_step("input_ids");
    pairs.decoder_input_ids = of_step("decoder_input_ids");
    pairs.labels = of_step("labels");
    const Tensor loss = preference_loss(*model, *reference, pairs, number("beta"));
    EXPECT_NEAR(loss.item(), losses[step], 1e-4) << "step " << step;
    optimizer.zero_grad();
    backward(loss);
    optimizer.step();
  }
  EXPECT_LT(losses.back(), losses.front() + 1.0);
}

}  // namespace
}  // namespace heed::test
