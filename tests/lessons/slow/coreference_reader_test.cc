#include <gtest/gtest.h>

#include <algorithm>

#include "heed/inspect.h"
#include "heed/lessons.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "support/emulated.h"
#include "support/error.h"

namespace heed {
namespace {

constexpr int64_t kHeldOut = 300;

/// Which heads point at the referent, over held-out sentences.
std::vector<HeadPointing> pointing(const CoreferenceReader& reader) {
  const NoGrad no_grad;
  PointingScore score;
  for (const CoreferenceExample& example :
       coreference_examples({reader.options.language, reader.options.seed, true}, kHeldOut)) {
    Recorder recorder;
    reader.answer(example);
    score.add(recorder, example.query, example.referent);
  }
  return score.ranked();
}

double accuracy_without(const CoreferenceReader& reader, const HeadPointing& head) {
  RecorderOptions options;
  options.attention = false;
  options.heads = {{head.place.layer, head.head, 0.0, head.place.kind}};
  const Recorder recorder(options);
  return score_coreference(reader, kHeldOut).accuracy;
}

// The reader of "it" is not told which head to look at: the table finds it.
TEST(Reader, ItsReadoutIsTheHeadThatPoints) {
  HEED_SKIP_EMULATED("trains for 300 steps, as `heed quickstart` of the package does");
  for (const Language language : {Language::english, Language::korean}) {
    const CoreferenceReader reader = train_coreference({.language = language});
    const std::vector<HeadPointing> ranked = pointing(reader);
    ASSERT_EQ(ranked.size(), 2U * 4 + 1);  // two layers of four heads, and the readout
    EXPECT_EQ(ranked[0].place.kind, "readout");
    EXPECT_GE(ranked[0].accuracy, 0.98);
    EXPECT_LT(ranked[1].accuracy, ranked[0].accuracy);
  }
}

// The same encoder with a plain classifier answers as well, and no head of it points that well:
// where it looks is not why it answers.
TEST(Reader, APlainClassifierAnswersWithoutPointing) {
  HEED_SKIP_EMULATED("trains for 300 steps, as `heed quickstart` of the package does");
  const CoreferenceReader reader = train_coreference({.readout = Readout::classifier});
  const double accuracy = score_coreference(reader, kHeldOut).accuracy;
  EXPECT_GE(accuracy, 0.9);
  const std::vector<HeadPointing> ranked = pointing(reader);
  ASSERT_EQ(ranked.size(), 2U * 4);
  EXPECT_LT(ranked[0].accuracy, 0.98);
  EXPECT_ERROR(reader.weights(coreference_tutorial(Language::english).front()),
               "weights: a classifier has no readout's weights");
  double least = 1;
  for (const HeadPointing& head : ranked) {
    least = std::min(least, accuracy_without(reader, head));
  }
  EXPECT_LT(least, accuracy);
}

}  // namespace
}  // namespace heed
