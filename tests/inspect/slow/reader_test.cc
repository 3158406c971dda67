#include <gtest/gtest.h>

#include "heed/autograd.h"
#include "heed/inspect.h"
#include "heed/teaching.h"
#include "train/coreference.h"

namespace heed {
namespace {

// The reader of "it" is not told which head to look at: the table finds it.
TEST(Reader, ItsReadoutIsTheHeadThatPoints) {
  const CoreferenceReader reader = train_coreference({}, [](const Progress&) {});
  const NoGrad no_grad;
  PointingScore score;
  for (const CoreferenceExample& example :
       coreference_examples({Language::english, 0, true}, 200)) {
    Recorder recorder;
    reader.weights(example);
    score.add(recorder, example.query, example.referent);
  }
  const std::vector<HeadPointing> ranked = score.ranked();
  ASSERT_EQ(ranked.size(), 2U * 4 + 1);  // two layers of four heads, and the readout
  EXPECT_EQ(ranked[0].place.kind, "readout");
  EXPECT_GE(ranked[0].accuracy, 0.98);
  EXPECT_LT(ranked[1].accuracy, ranked[0].accuracy);
}

}  // namespace
}  // namespace heed
