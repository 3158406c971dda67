#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/audio_decoder.h"
#include "io/resample_audio.h"

namespace heed {

/// Samples of one channel that come in blocks and can be read more than once.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// Appends the next block of samples to `out`; false when the last sample has been given.
  virtual bool read(std::vector<float>& out) = 0;
  /// Makes read() begin with the first sample again.
  virtual void rewind() = 0;
  /// For messages.
  virtual const std::string& name() const = 0;
};

/// Decodes an audio file block by block: channels are averaged, other rates resampled. Holds one
/// block, however long the file is. Throws kind data for a broken file, or one of more than six
/// hours.
class AudioReader final : public SampleSource {
 public:
  AudioReader(const std::filesystem::path& path, int64_t sample_rate);
  /// The same for bytes in memory, which must outlive the reader.
  AudioReader(std::string_view bytes, const std::string& name, int64_t sample_rate);

  AudioReader(const AudioReader&) = delete;  // the decoder refers to bytes_
  AudioReader& operator=(const AudioReader&) = delete;

  bool read(std::vector<float>& out) override;
  void rewind() override;
  const std::string& name() const override { return bytes_.name; }

 private:
  AudioReader(AudioBytes bytes, int64_t sample_rate);

  AudioBytes bytes_;
  int64_t sample_rate_;
  std::unique_ptr<AudioDecoder> decoder_;
  std::optional<AudioResampler> resampler_;  ///< made by rewind()
  std::vector<float> frames_;                ///< [kBlock, channels]
  std::vector<float> block_;
  int64_t produced_ = 0;
  bool ended_ = false;
};

}  // namespace heed
