#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "models/cases.h"

namespace heed::test {
namespace {

struct Gradients {
  double loss = 0.0;
  std::vector<std::pair<std::string, Tensor>> of;
};

/// Products in bf16 read weights that are rounded to bf16: the same weights for every type, so that
/// activations alone make the difference.
void round_matrices(const Model& model) {
  const NoGrad no_grad;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.rank() == 2) {
      Tensor weight = parameter.tensor;
      weight.copy_from(weight.detach().to(DType::bf16));
    }
  }
}

Gradients gradients(const char* name, DType activations, bool recompute) {
  Case given = load_case(name, true);
  round_matrices(*given.model);
  given.model->set_gradient_checkpointing(recompute);
  manual_seed(11);
  Gradients result;
  {
    const ActivationScope scope(activations);
    const Tensor loss = given.model->forward(given.input).loss;
    result.loss = loss.item();
    backward(loss);
  }
  for (const Parameter& parameter : given.model->parameters()) {
    if (parameter.tensor.requires_grad()) {
      result.of.emplace_back(parameter.name, parameter.tensor.grad());
    }
  }
  return result;
}

double norm(const Tensor& x) { return std::sqrt(sum(mul(x, x)).item()); }

using Precision = testing::TestWithParam<std::tuple<const char*, DType>>;
class Activations : public Precision {};

/// One unit of a ReLU whose input is nearly 0 flips under any rounding, and T5's scores are not
/// scaled down, so a rounding of them grows in the exponential: there the bound is not a few
/// roundings, but the direction of all gradients together still holds.
bool jumps(const std::string& name) {
  return name == "training/seq2seq" || name == "models/t5_gated";
}

/// bf16 keeps 8 bits and f16 11: over a few layers a gradient is off by a few roundings of its
/// norm, and stays f32 as its parameter.
TEST_P(Activations, GradientsAreThoseOfF32UpToRounding) {
  const auto [name, type] = GetParam();
  const double rounding = type == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  const Gradients wide = gradients(name, DType::f32, false);
  const Gradients narrow = gradients(name, type, false);
  EXPECT_NEAR(narrow.loss, wide.loss, 8 * rounding * std::abs(wide.loss));
  EXPECT_NE(narrow.loss, wide.loss) << "nothing was rounded: the scope had no effect";
  double all = 0.0;
  double off = 0.0;
  double dot = 0.0;
  double narrow_all = 0.0;
  for (size_t i = 0; i < wide.of.size(); ++i) {
    ASSERT_EQ(narrow.of[i].second.dtype(), DType::f32) << wide.of[i].first;
    all += std::pow(norm(wide.of[i].second), 2);
    narrow_all += std::pow(norm(narrow.of[i].second), 2);
    dot += sum(mul(narrow.of[i].second, wide.of[i].second)).item();
    off += std::pow(norm(sub(narrow.of[i].second, wide.of[i].second)), 2);
  }
  EXPECT_GT(dot / std::sqrt(all * narrow_all), 0.998);
  if (!jumps(name)) {
    EXPECT_LT(std::sqrt(off / all), 8 * rounding);
  }
}

TEST_P(Activations, RecomputationChangesNoBit) {
  const auto [name, type] = GetParam();
  const Gradients kept = gradients(name, type, false);
  const Gradients again = gradients(name, type, true);
  EXPECT_EQ(kept.loss, again.loss);
  for (size_t i = 0; i < kept.of.size(); ++i) {
    expect_same_bits(again.of[i].second, kept.of[i].second, kept.of[i].first);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Activations,
                         testing::Combine(testing::Values("models/bert_mlm", "models/vit_classify",
                                                          "models/t5_gated", "models/marian",
                                                          "models/gpt2_lm", "models/llama_gqa",
                                                          "training/seq2seq"),
                                          testing::Values(DType::bf16, DType::f16)),
                         [](const auto& each) {
                           std::string text = std::get<0>(each.param);
                           for (char& c : text) {
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           }
                           return text + "_" + std::string(name_of(std::get<1>(each.param)));
                         });

/// The type of all activations for the length of a scope.
struct RunningType {
  explicit RunningType(DType type) { set_activation_type(type); }
  ~RunningType() { set_activation_type(DType::f32); }
  RunningType(const RunningType&) = delete;
  RunningType& operator=(const RunningType&) = delete;
};

/// What --dtype bf16 does: matrices are kept in bf16, and hidden states follow those of f32.
TEST(RunningInBf16, RoundsMatricesOnceAndFollowsF32) {
  for (const char* name :
       {"models/bert_base", "models/vit_classify", "models/gpt2_lm", "models/deberta_base",
        "models/fnet_base", "models/nystromformer_base", "models/longformer_base",
        "models/big_bird_base", "models/modernbert_base", "models/albert_base", "models/marian",
        "models/beit_base", "models/llama_gqa"}) {
    SCOPED_TRACE(name);
    const NoGrad no_grad;
    Case wide = load_case(name);
    wide.input.labels = Tensor();
    Case narrow;
    ModelOutput actual;
    {
      const RunningType bf16(DType::bf16);
      narrow = load_case(name);
      narrow.input.labels = Tensor();
      actual = narrow.model->forward(narrow.input);
    }
    const ModelOutput expected = wide.model->forward(wide.input);
    int64_t all = 0;
    int64_t rounded = 0;
    for (const Parameter& parameter : narrow.model->parameters()) {
      const Tensor& tensor = parameter.tensor;
      EXPECT_TRUE(tensor.rank() == 2 || tensor.dtype() == DType::f32) << parameter.name;
      all += tensor.numel();
      rounded += tensor.dtype() == DType::bf16 ? tensor.numel() : 0;
    }
    EXPECT_GT(2 * rounded, all) << "most weights are in matrices";
    const Tensor& result =
        actual.last_hidden_state.defined() ? actual.last_hidden_state : actual.logits;
    const Tensor& wanted =
        expected.last_hidden_state.defined() ? expected.last_hidden_state : expected.logits;
    EXPECT_EQ(result.dtype(), DType::f32);
    expect_norm_close(result, wanted, 8.0 / 256);
    EXPECT_NE(result.to_doubles(), wanted.to_doubles()) << "nothing was rounded";
  }
  EXPECT_EQ(activation_type(), DType::f32);
}

TEST(RunningInBf16, RefusesOtherTypes) {
  try {
    set_activation_type(DType::f16);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("f16 is not one of f32, bf16"), std::string::npos)
        << error.what();
  }
}

TEST(LossScale, HalvesOnOverflowAndGrowsAgain) {
  LossScale scale = LossScale::for_type(DType::f16);
  EXPECT_EQ(scale.scale, 65536.0);
  EXPECT_TRUE(scale.update(false)) << "the scale explains it";
  EXPECT_EQ(scale.scale, 32768.0);
  for (int64_t i = 0; i < LossScale::kGrowAfter - 1; ++i) {
    EXPECT_FALSE(scale.update(true));
  }
  EXPECT_EQ(scale.scale, 32768.0);
  scale.update(true);
  EXPECT_EQ(scale.scale, 65536.0);
  scale = {1.0, 0};
  EXPECT_FALSE(scale.update(false)) << "nothing left to halve: the run itself diverges";
  EXPECT_EQ(LossScale::for_type(DType::bf16).scale, 1.0);
}

}  // namespace
}  // namespace heed::test
