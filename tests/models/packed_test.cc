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

}  // namespace
}  // namespace heed::test
