// A model that is run again and again reads its weights from panels: nothing else may change.
#include <gtest/gtest.h>

#include "models/cases.h"

namespace heed::test {
namespace {

TEST(PackedModel, EveryRunHasTheSameBits) {
  const NoGrad no_grad;
  for (const char* name : {"models/bert_base", "models/distilbert_base", "models/vit_base"}) {
    const Case given = load_case(name, false);
    const auto run = [&] {
      return given.model->forward(given.input).last_hidden_state.to_vector<float>();
    };
    const std::vector<float> first = run();
    ASSERT_FALSE(first.empty()) << name;
    for (int again = 2; again <= 5; ++again) {  // panels are made in the third run
      EXPECT_EQ(run(), first) << name << ", run " << again;
    }
  }
}

/// A model in memory whose file holds f16 computes what one with the same numbers in f32 computes.
TEST(PackedModel, HalfWeightsInMemoryRunAsF32) {
  const NoGrad no_grad;
  const Case given = load_case("models/bert_base", false);
  const TemporaryFolder folder;
  save_model(*given.model, folder / "half", DType::f16);
  const auto memory = load_model(folder / "half", {.trainable = false, .in_memory = true});
  save_model(*memory, folder / "single");
  const auto single = load_model(folder / "single");
  for (const Parameter& parameter : memory->parameters()) {
    EXPECT_TRUE(parameter.tensor.rank() != 2 || parameter.tensor.dtype() == DType::f32)
        << parameter.name;
  }
  for (int run = 1; run <= 4; ++run) {  // with and without panels
    expect_same_bits(memory->forward(given.input).last_hidden_state,
                     single->forward(given.input).last_hidden_state, "last_hidden_state");
  }
}

}  // namespace
}  // namespace heed::test
