#include "io/log_mel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/io.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// WhisperFeatureExtractor computes in f32 and says itself that 1e-5 is what it holds.
TEST(LogMel, IsTheReferenceSpectrogram) {
  const TensorMap golden_values = load_safetensors(golden("ops/log_mel.safetensors"));
  for (const int64_t mels : {80, 128}) {
    const Tensor expected = golden_values.at("mels_" + std::to_string(mels));
    const Tensor actual = log_mel_spectrogram(golden_values.at("samples"), {.mels = mels});
    ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string());
    for (int64_t i = 0; i < actual.numel(); ++i) {
      ASSERT_NEAR(actual.data<float>()[i], expected.data<float>()[i], 5e-5) << mels << " " << i;
    }
  }
}

TEST(LogMel, SilenceIsTheFloor) {
  const Tensor spectrogram = log_mel_spectrogram(Tensor::zeros({1600}));
  EXPECT_EQ(spectrogram.shape().to_string(), Shape({80, 10}).to_string());
  for (const double value : spectrogram.to_doubles()) {
    EXPECT_FLOAT_EQ(static_cast<float>(value), -1.5f);  // (log10 1e-10 + 4) / 4
  }
}

/// To the bit, ends included: the last frame may be one of a pair or alone, and lengths below a
/// frame's are mirrored more than once.
TEST(LogMel, DoesNotDependOnTheBlocks) {
  for (const int64_t count : {201, 359, 480, 1600, 5000, 5121}) {
    const Tensor samples = random_normal({count}, DType::f32, static_cast<uint64_t>(count));
    const std::span<const float> all(samples.data<float>(), static_cast<size_t>(count));
    std::vector<float> whole;
    LogMelStream({}).add(all, true, whole);
    ASSERT_EQ(whole.size(), static_cast<size_t>(80 * (count / 160)));
    for (const size_t block : {1, 100, 161, 1000}) {
      LogMelStream stream({});
      std::vector<float> parts;
      for (size_t begin = 0; begin < all.size(); begin += block) {
        stream.add(all.subspan(begin, std::min(block, all.size() - begin)), false, parts);
      }
      stream.add({}, true, parts);
      EXPECT_EQ(parts, whole) << count << " in blocks of " << block;
    }
  }
}

TEST(LogMel, RefusesWhatIsNoSignal) {
  EXPECT_ERROR(log_mel_spectrogram(Tensor::zeros({100})),
               "log_mel_spectrogram: 100 samples; more than 200 are wanted");
  EXPECT_ERROR(log_mel_spectrogram(Tensor::zeros({2, 1000})),
               "log_mel_spectrogram: samples must be floating [N], not f32 [2, 1000]");
  EXPECT_ERROR(log_mel_spectrogram(Tensor::zeros({1000}, DType::i64)),
               "log_mel_spectrogram: samples must be floating [N], not i64 [1000]");
}

}  // namespace
}  // namespace heed::test
