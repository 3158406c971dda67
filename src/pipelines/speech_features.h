#pragma once

#include <vector>

#include "heed/pipelines.h"
#include "io/audio_reader.h"
#include "io/log_mel.h"

namespace heed {

inline constexpr int64_t kSpeechRate = 16000;  ///< samples per second that speech models read

/// Samples f32 [N] in memory as a source.
class TensorSamples final : public SampleSource {
 public:
  explicit TensorSamples(Tensor samples) : samples_(std::move(samples)) {}
  bool read(std::vector<float>& out) override;
  void rewind() override { position_ = 0; }
  const std::string& name() const override { return name_; }

 private:
  Tensor samples_;
  int64_t position_ = 0;
  std::string name_ = "transcribe";
};

/// The log-mel spectrogram of a recording, in windows. What is held does not depend on the length
/// of the recording: a long one is read twice, first for its length and the largest value, which
/// the normalization needs, then window by window.
class SpeechFeatures {
 public:
  /// Reads the recording once; throws what the source throws, and where it is too short.
  SpeechFeatures(SampleSource& source, const Model& model);

  int64_t samples() const { return samples_; }
  /// Frames of the recording itself, without the silence behind it.
  int64_t frames() const { return samples_ / options_.hop_length; }
  /// Frames [begin, begin + count) as f32 [1, mels, count], zeros behind the end.
  Tensor window(int64_t begin, int64_t count);

 private:
  void restart();
  /// Reads some seconds more; false at the end.
  bool read_on();
  /// Forgets the frames before `begin`.
  void drop_before(int64_t begin);
  int64_t held_end() const;

  SampleSource& source_;
  LogMelOptions options_;
  std::optional<LogMelStream> stream_;
  std::vector<float> block_;  ///< samples
  std::vector<float> held_;   ///< frames [held_end() - first_, mels] from number first_ on
  int64_t first_ = 0;
  bool ended_ = false;
  int64_t samples_ = 0;
  int64_t all_ = 0;       ///< frames, with those of the silence behind the recording
  float largest_ = 0.0F;  ///< of all frames
};

/// The text of a recording that is being read, by a model that SpeechRecognition takes.
Transcript transcribe_features(const LoadedModel& loaded, SpeechFeatures& features,
                               const SpeechOptions& options);

}  // namespace heed
