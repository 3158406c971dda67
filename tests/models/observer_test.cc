// An observer sees what a model computes and changes no bit of it: every golden model, in f32 and
// bf16, with and without padding, and its gradients with dropout.
#include <gtest/gtest.h>

#include <algorithm>

#include "heed/attention.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "models/forward.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

/// Asks for everything and leaves it as it is.
class Everything final : public Observer {
 public:
  bool wants(const std::string&) override { return true; }
  Tensor activation(const std::string&, const Tensor& value) override {
    ++activations;
    EXPECT_TRUE(value.dtype() == DType::f32 || !is_floating(value.dtype()));
    return value;
  }
  void attention(const std::string&, const AttentionRecord& record) override {
    ++attentions;
    EXPECT_EQ(record.q.dtype(), DType::f32);
    EXPECT_EQ(record.output.dtype(), DType::f32);
  }
  int64_t activations = 0;
  int64_t attentions = 0;
};

std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(golden("models"))) {
    if (fs::exists(entry.path() / "inputs.safetensors")) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

void expect_same_output(const ModelOutput& actual, const ModelOutput& expected,
                        const std::string& what) {
  const auto same = [&](const Tensor& a, const Tensor& b, const char* name) {
    ASSERT_EQ(a.defined(), b.defined()) << what << " " << name;
    if (a.defined()) {
      expect_same_bits(a, b, what + " " + name);
    }
  };
  same(actual.loss, expected.loss, "loss");
  same(actual.logits, expected.logits, "logits");
  same(actual.last_hidden_state, expected.last_hidden_state, "last_hidden_state");
  same(actual.pooler_output, expected.pooler_output, "pooler_output");
  same(actual.encoder_last_hidden_state, expected.encoder_last_hidden_state, "encoder");
  same(actual.start_logits, expected.start_logits, "start_logits");
  same(actual.end_logits, expected.end_logits, "end_logits");
  same(actual.image_embeds, expected.image_embeds, "image_embeds");
  same(actual.text_embeds, expected.text_embeds, "text_embeds");
}

class ObservedModel : public testing::TestWithParam<fs::path> {};

TEST_P(ObservedModel, GivesTheSameBits) {
  const fs::path& folder = GetParam();
  const auto model = load_model(folder);
  const NoGrad no_grad;
  ModelInput input = model_input(load_safetensors(folder / "inputs.safetensors"), "inputs");
  for (const DType type : {DType::f32, DType::bf16}) {
    const ActivationScope precision(type);
    for (const bool ragged : {false, true}) {
      input.skip_padding = ragged;
      const ModelOutput expected = model->forward(input);
      Everything observer;
      const ModelOutput actual = model->forward(input);
      EXPECT_GT(observer.activations + observer.attentions, 0);
      expect_same_output(actual, expected,
                         std::string(name_of(type)) + (ragged ? " without padding" : ""));
    }
  }
}

/// Forward and backward pass of a training step, from the same random numbers.
TensorMap step(const Model& model, const ModelInput& input) {
  manual_seed(3);
  for (const Parameter& parameter : model.parameters()) {
    Tensor(parameter.tensor).set_grad(Tensor());
  }
  backward(model.forward(input).loss);
  TensorMap gradients;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.requires_grad() && parameter.tensor.grad().defined()) {
      gradients.emplace(parameter.name, parameter.tensor.grad());
    }
  }
  return gradients;
}

TEST_P(ObservedModel, TrainsWithTheSameBits) {
  const fs::path& folder = GetParam();
  if (!fs::exists(folder / "grads.safetensors")) {
    return;  // a model without a loss
  }
  const auto model = load_model(folder, {.trainable = true});
  ModelInput input = model_input(load_safetensors(folder / "inputs.safetensors"), "inputs");
  input.training = true;
  input.want_loss = true;
  for (const bool ragged : {false, true}) {
    input.skip_padding = ragged;
    const TensorMap expected = step(*model, input);
    Everything observer;
    const TensorMap actual = step(*model, input);
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, gradient] : expected) {
      expect_same_bits(actual.at(name), gradient, name + (ragged ? " without padding" : ""));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ObservedModel, testing::ValuesIn(folders()),
                         [](const auto& each) { return each.param.filename().string(); });

}  // namespace
}  // namespace heed::test
