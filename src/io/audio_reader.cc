#include "io/audio_reader.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/file.h"

namespace heed {
namespace {

constexpr int64_t kMostSeconds = 6 * 60 * 60;
constexpr int64_t kBlock = 1 << 12;  // frames that are read at a time

AudioBytes bytes_of(const std::filesystem::path& path) {
  const auto file = std::make_shared<InputFile>(path);
  return {path.native(), static_cast<int64_t>(file->size()),
          [file](int64_t offset, void* data, int64_t count) {
            file->read_at(static_cast<uint64_t>(offset), data, static_cast<size_t>(count));
          }};
}

AudioBytes bytes_of(std::string_view bytes, const std::string& name) {
  return {name, static_cast<int64_t>(bytes.size()),
          [bytes](int64_t offset, void* data, int64_t count) {
            std::memcpy(data, bytes.data() + offset, static_cast<size_t>(count));
          }};
}

}  // namespace

AudioReader::AudioReader(const std::filesystem::path& path, int64_t sample_rate)
    : AudioReader(bytes_of(path), sample_rate) {}

AudioReader::AudioReader(std::string_view bytes, const std::string& name, int64_t sample_rate)
    : AudioReader(bytes_of(bytes, name), sample_rate) {}

AudioReader::AudioReader(AudioBytes bytes, int64_t sample_rate)
    : bytes_(std::move(bytes)), sample_rate_(sample_rate) {
  check(sample_rate >= 1000 && sample_rate <= 400000, "decode_audio",
        "a sample rate of {}; 1000 to 400000 is wanted", sample_rate);
  rewind();
}

void AudioReader::rewind() {
  decoder_.reset();
  decoder_ = is_mpeg_audio(bytes_) ? open_mpeg_audio(bytes_) : open_sound_file(bytes_);
  const int64_t channels = decoder_->channels();
  const int64_t rate = decoder_->sample_rate();
  check_data(channels >= 1 && channels <= 64 && rate >= 1000 && rate <= 400000, bytes_.name,
             "has {} channels at {} Hz; 1 to 64 channels at 1 to 400 kHz are read", channels, rate);
  resampler_.emplace(rate, sample_rate_);
  frames_.resize(static_cast<size_t>(kBlock * channels));
  produced_ = 0;
  ended_ = false;
}

bool AudioReader::read(std::vector<float>& out) {
  if (ended_) {
    return false;
  }
  const int64_t count = decoder_->read(frames_.data(), kBlock);
  ended_ = count < kBlock;
  block_.assign(static_cast<size_t>(count), 0.0F);
  const auto channels = static_cast<size_t>(decoder_->channels());
  for (size_t i = 0; i < block_.size(); ++i) {
    for (size_t channel = 0; channel < channels; ++channel) {
      block_[i] += frames_[i * channels + channel];
    }
    block_[i] /= static_cast<float>(channels);
    check_data(std::isfinite(block_[i]), bytes_.name, "holds samples that are no numbers");
  }
  const size_t before = out.size();
  resampler_->add(block_, ended_, out);
  produced_ += static_cast<int64_t>(out.size() - before);
  check_data(produced_ <= kMostSeconds * sample_rate_, bytes_.name,
             "is longer than {} hours; split it", kMostSeconds / 3600);
  return true;
}

}  // namespace heed
