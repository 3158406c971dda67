#include <gtest/gtest.h>

#include "heed/inspect.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed {
namespace {

// Head 0 looks everywhere alike; head 1 looks at key 2.
void attend() {
  const Tensor q = Tensor::full({1, 2, 4, 1}, 1.0);
  const Tensor k = Tensor::zeros({1, 2, 4, 1});
  k.data<float>()[4 + 2] = 5.0F;
  attention(q, k, test::random_normal({1, 2, 4, 3}));
}

TEST(Pointing, RanksTheHeadThatPoints) {
  PointingScore score;
  for (int64_t i = 0; i < 3; ++i) {
    Recorder recorder;
    {
      const HookScope hook_scope("blocks", 0);
      const HookScope inner("attn");
      attend();
    }
    score.add(recorder, 1, i == 2 ? 3 : 2);
  }
  const std::vector<HeadPointing> ranked = score.ranked();
  ASSERT_EQ(ranked.size(), 2U);
  EXPECT_EQ(score.examples(), 3);
  EXPECT_EQ(ranked[0].head, 1);
  EXPECT_NEAR(ranked[0].accuracy, 2.0 / 3, 1e-12);
  EXPECT_EQ(ranked[1].accuracy, 0.0);
  EXPECT_NEAR(ranked[1].mean_weight, 0.25, 1e-6);
}

TEST(Pointing, RefusesPlacesOutside) {
  PointingScore score;
  Recorder recorder;
  attend();
  EXPECT_ERROR(score.add(recorder, 4, 0),
               "PointingScore: query 4 and target 0 do not lie in '', which is [4, 4]");
  EXPECT_ERROR(score.add(recorder, 0, 4),
               "PointingScore: query 0 and target 4 do not lie in '', which is [4, 4]");
}

}  // namespace
}  // namespace heed
