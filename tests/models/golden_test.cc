#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "io/json.h"
#include "models/forward.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

/// Every folder with reference values: the committed ones and those beside the project.
std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  for (const fs::path& parent : {golden("models"), shared_data("hf-golden")}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(parent, error)) {
      if (fs::exists(entry.path() / "outputs.safetensors")) {
        found.push_back(entry.path());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Which positions [B, T] count, as f32: padded ones hold whatever the reference left there.
Tensor real_positions(const ModelInput& input, bool decoder) {
  if (decoder && !input.decoder_attention_mask.defined() && input.labels.defined()) {
    Tensor real = Tensor::empty(input.labels.shape());
    const std::vector<int64_t> labels = input.labels.to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) {
      real.data<float>()[i] = labels[i] != -100 ? 1.0f : 0.0f;
    }
    return real;
  }
  const Tensor& mask = decoder ? input.decoder_attention_mask : input.attention_mask;
  return mask.defined() ? mask.to(DType::f32) : Tensor();
}

/// A result with zeros in place of what belongs to padding.
Tensor at_real_positions(const std::string& name, const Tensor& value, const ModelInput& input) {
  // Where only labels are given, the decoder reads them shifted.
  const bool from_labels = input.labels.defined() && input.labels.rank() == 2 &&
                           input.attention_mask.defined() &&
                           input.labels.size(1) != input.attention_mask.size(1);
  const bool two_stacks = input.decoder_input_ids.defined() || from_labels;
  const bool decoder = two_stacks && !name.starts_with("encoder");
  if (!decoder && input.pixel_values.defined()) {
    return value;
  }
  const Tensor real = real_positions(input, decoder);
  if (!real.defined()) {
    return value;
  }
  const int64_t batch = real.size(0);
  const int64_t length = real.size(1);
  if (value.rank() == 4) {  // weights: rows are queries
    return mul(value, reshape(real, {batch, 1, length, 1}));
  }
  if (value.rank() == 3) {
    return mul(value, reshape(real, {batch, length, 1}));
  }
  return value;
}

double norm_of(const Tensor& x) {
  double sum = 0.0;
  for (const double value : x.to_doubles()) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

/// Gradients by name. One that is nothing beside the whole (a key's bias, which softmax cancels) is
/// rounding noise in the reference too, and only has to be as small.
void expect_gradients_close(const TensorMap& actual, const TensorMap& expected) {
  double whole = 0.0;
  for (const auto& [name, tensor] : expected) {
    whole = std::hypot(whole, norm_of(tensor));
  }
  constexpr double kNoise = 1e-6;
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find("grad." + name);
    if (found == actual.end()) {
      // What neither trains: positions that Pegasus stores are looked up without a gradient.
      EXPECT_EQ(norm_of(tensor), 0.0) << name << " has no gradient";
    } else if (norm_of(tensor) < kNoise * whole) {
      EXPECT_LT(norm_of(found->second), kNoise * whole) << name;
    } else {
      expect_norm_close(found->second, tensor, kModel, name);
    }
  }
}

class GoldenModel : public testing::TestWithParam<fs::path> {};

TEST_P(GoldenModel, GivesTheReferenceOutputs) {
  const fs::path& folder = GetParam();
  const auto model = load_model(folder);
  const ModelInput input = model_input(load_safetensors(folder / "inputs.safetensors"), "inputs");
  const TensorMap expected = load_safetensors(folder / "outputs.safetensors");
  // A fused reference gives no attention weights (tests/golden/generate_models.py, FUSED).
  const bool attentions = std::any_of(expected.begin(), expected.end(), [](const auto& each) {
    return each.first.find("attentions.") != std::string::npos;
  });
  const TensorMap actual =
      run_forward(*model, input, {.hidden_states = true, .attentions = attentions});
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) {
      ADD_FAILURE() << name << " is not among the results";
      continue;
    }
    ASSERT_EQ(found->second.shape().to_string(), tensor.shape().to_string()) << name;
    expect_norm_close(at_real_positions(name, found->second, input),
                      at_real_positions(name, tensor, input), kModel, name);
  }
  for (const auto& [name, tensor] : actual) {
    EXPECT_TRUE(expected.contains(name)) << name << " is not among the reference's results";
  }
}

TEST_P(GoldenModel, GivesTheReferenceGradients) {
  const fs::path& folder = GetParam();
  if (!fs::exists(folder / "grads.safetensors")) {
    return;  // a model without a loss
  }
  const auto model = load_model(folder, {.trainable = true});
  const ModelInput input = model_input(load_safetensors(folder / "inputs.safetensors"), "inputs");
  const TensorMap actual = run_forward(*model, input, {.grads = true});
  const TensorMap expected = load_safetensors(folder / "grads.safetensors");
  expect_gradients_close(actual, expected);
  for (const Parameter& parameter : model->parameters()) {
    EXPECT_TRUE(!parameter.tensor.requires_grad() || expected.contains(parameter.name))
        << parameter.name << " has a gradient that the reference has not";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::ValuesIn(folders()), [](const auto& each) {
  const bool shared = each.param.parent_path().filename() == "hf-golden";
  return (shared ? "shared_" : "") + each.param.filename().string();
});

}  // namespace
}  // namespace heed::test
