#include "pipelines/speech_features.h"

#include <gtest/gtest.h>

#include "support/check.h"
#include "support/error.h"

namespace heed::test {
namespace {

std::unique_ptr<Model> tiny_whisper() {
  return create_model(
      R"({"model_type":"whisper","architectures":["WhisperForConditionalGeneration"],"d_model":16,
      "encoder_layers":1,"decoder_layers":1,"encoder_attention_heads":2,
      "decoder_attention_heads":2,"encoder_ffn_dim":16,"decoder_ffn_dim":16,"num_mel_bins":8,
      "max_source_positions":100,"max_target_positions":8,"vocab_size":40,"pad_token_id":0})",
      1);
}

/// The spectrogram of the whole recording with a frame of silence behind it, [8, frames].
Tensor whole_spectrogram(const Tensor& samples) {
  Tensor padded = Tensor::zeros({samples.numel() + 160});
  std::copy_n(samples.data<float>(), samples.numel(), padded.data<float>());
  return log_mel_spectrogram(padded, {.mels = 8});
}

/// Windows in any order, those before the last one included, which are read again.
TEST(SpeechFeatures, WindowsAreThoseOfTheWholeRecording) {
  const auto model = tiny_whisper();
  const Tensor samples = random_normal({160 * 3000 + 77}, DType::f32, 4);
  const Tensor whole = whole_spectrogram(samples);
  ASSERT_EQ(whole.size(1), 3001);
  TensorSamples source(samples);
  SpeechFeatures features(source, *model);
  EXPECT_EQ(features.samples(), samples.numel());
  EXPECT_EQ(features.frames(), 3000);
  for (const int64_t begin : {0, 1, 1999, 2000, 1500, 2950, 0}) {
    const Tensor window = features.window(begin, 200);
    for (int64_t m = 0; m < 8; ++m) {
      for (int64_t i = 0; i < 200; ++i) {
        const float wanted = begin + i < 3001 ? whole.data<float>()[m * 3001 + begin + i] : 0.0F;
        ASSERT_EQ(window.data<float>()[m * 200 + i], wanted) << begin << " " << m << " " << i;
      }
    }
  }
}

TEST(SpeechFeatures, ARecordingThatIsTooShortIsNamed) {
  const auto model = tiny_whisper();
  TensorSamples source(Tensor::zeros({40}));
  EXPECT_ERROR(SpeechFeatures(source, *model),
               "transcribe: is too short: 40 samples at 16000 Hz; more than 40 are wanted");
}

/// Gives fewer samples when it is read again.
class Shrinking final : public SampleSource {
 public:
  bool read(std::vector<float>& out) override {
    out.insert(out.end(), static_cast<size_t>(left_), 0.5F);
    return std::exchange(left_, 0) > 0;
  }
  void rewind() override { left_ = 1000; }
  const std::string& name() const override { return name_; }

 private:
  int64_t left_ = 160 * 3000;
  std::string name_ = "a.wav";
};

TEST(SpeechFeatures, ARecordingThatChangesIsAnError) {
  const auto model = tiny_whisper();
  Shrinking source;
  SpeechFeatures features(source, *model);
  EXPECT_EQ(features.window(2000, 100).size(2), 100);
  EXPECT_ERROR(features.window(0, 100), "a.wav: was changed while it was read");
}

/// Gives samples until it is told to stop, and on.
class Endless final : public SampleSource {
 public:
  bool read(std::vector<float>& out) override {
    out.insert(out.end(), 16000, 0.5F);
    if (++seconds_ == 60) {
      stop.request_stop();
    }
    return true;
  }
  void rewind() override {}
  const std::string& name() const override { return name_; }
  std::stop_source stop;

 private:
  int seconds_ = 0;
  std::string name_ = "endless.wav";
};

TEST(SpeechFeatures, ReadingARecordingCanBeStopped) {
  const auto model = tiny_whisper();
  Endless source;
  const StopScope scope(source.stop.get_token());
  EXPECT_THROW(SpeechFeatures(source, *model), Stopped);
}

}  // namespace
}  // namespace heed::test
