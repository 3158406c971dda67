#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/cases.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// Two pictures through a small ViT of `outputs` outputs.
ModelOutput two_pictures(const std::string& problem, int outputs, const Tensor& labels) {
  const auto model = create_model(
      fmt::format(R"({{"model_type":"vit","architectures":["ViTForImageClassification"],
        "hidden_size":16,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":32,
        "image_size":8,"patch_size":4,"num_channels":1,"initializer_range":0.5,
        "num_labels":{}{}}})",
                  outputs, problem.empty() ? "" : ",\"problem_type\":\"" + problem + "\""),
      1);
  ModelInput input;
  input.pixel_values = Tensor::empty({2, 1, 8, 8});
  for (int64_t i = 0; i < 128; ++i) {
    input.pixel_values.data<float>()[i] = static_cast<float>((i * 37) % 64) / 32.0F - 1.0F;
  }
  input.labels = labels;
  return model->forward(input);
}

constexpr float kRight[] = {1, 0, 1, 0, 0, 1};

Tensor six_labels() {
  Tensor labels = Tensor::empty({2, 3});
  std::copy(std::begin(kRight), std::end(kRight), labels.data<float>());
  return labels;
}

TEST(ProblemType, SeveralClassesMayBeRight) {
  for (const char* problem : {"", "multi_label_classification"}) {
    const ModelOutput out = two_pictures(problem, 3, six_labels());
    double expected = 0.0;
    for (int i = 0; i < 6; ++i) {
      const double x = out.logits.data<float>()[i];
      expected += (std::log1p(std::exp(-x)) + (1.0 - kRight[i]) * x) / 6.0;
    }
    EXPECT_NEAR(out.loss.item(), expected, 1e-6) << problem;
  }
}

TEST(ProblemType, OneOutputIsANumberUnlessNamed) {
  Tensor labels = Tensor::empty({2});
  labels.data<float>()[0] = 1.0F;
  labels.data<float>()[1] = 0.0F;
  const ModelOutput plain = two_pictures("", 1, labels);
  const float* x = plain.logits.data<float>();
  EXPECT_NEAR(plain.loss.item(), ((x[0] - 1.0) * (x[0] - 1.0) + double{x[1]} * x[1]) / 2.0, 1e-6);
  const ModelOutput binary = two_pictures("multi_label_classification", 1, labels);
  EXPECT_NEAR(binary.loss.item(),
              (std::log1p(std::exp(-double{x[0]})) + std::log1p(std::exp(double{x[1]}))) / 2.0,
              1e-6);
}

TEST(ProblemType, NumbersAndUnknownNames) {
  const ModelOutput out = two_pictures("regression", 3, six_labels());
  double expected = 0.0;
  for (int i = 0; i < 6; ++i) {
    const double off = double{out.logits.data<float>()[i]} - kRight[i];
    expected += off * off / 6.0;
  }
  EXPECT_NEAR(out.loss.item(), expected, 1e-6);
  EXPECT_ERROR(two_pictures("guess", 3, six_labels()),
               "config.json: problem_type 'guess' is not supported");
  EXPECT_ERROR(two_pictures("multi_label_classification", 3, Tensor::zeros({2}, DType::i64)),
               "loss: labels [2] do not fit outputs [2, 3]");
}

}  // namespace
}  // namespace heed::test
