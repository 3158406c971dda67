#include <gtest/gtest.h>

#include "heed/runtime.h"
#include "models/cases.h"

namespace heed::test {
namespace {

class Recompute : public testing::TestWithParam<const char*> {};

/// Gradient checkpointing changes no bit of a gradient, with dropout on.
TEST_P(Recompute, GivesTheSameGradients) {
  std::vector<Tensor> expected;
  for (const bool recompute : {false, true}) {
    Case given = load_case(GetParam(), true);
    given.input.training = true;
    given.model->set_gradient_checkpointing(recompute);
    manual_seed(11);
    backward(given.model->forward(given.input).loss);
    size_t index = 0;
    for (const Parameter& parameter : given.model->parameters()) {
      if (!parameter.tensor.requires_grad()) {
        continue;
      }
      const Tensor gradient = parameter.tensor.grad();
      ASSERT_TRUE(gradient.defined()) << parameter.name;
      if (!recompute) {
        expected.push_back(gradient);
      } else {
        expect_same_bits(gradient, expected[index++], parameter.name);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Recompute,
                         testing::Values("models/bert_mlm", "models/distilbert_classify",
                                         "models/vit_classify", "models/t5_gated", "models/marian",
                                         "models/gpt2_lm", "models/llama_gqa", "models/mpnet_mlm",
                                         "models/albert_classify", "models/modernbert_classify",
                                         "models/deberta_tag", "models/longformer_classify",
                                         "models/nystromformer_classify", "training/seq2seq"),
                         case_name);

}  // namespace
}  // namespace heed::test
