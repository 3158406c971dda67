#include "pipelines/speech_features.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/throw_if_stopped.h"

namespace heed {
namespace {

constexpr int64_t kBlock = int64_t{1} << 17;  // samples that are transformed at a time
constexpr int64_t kMostHeld = 30000;          // frames that the first reading keeps: five minutes

}  // namespace

bool TensorSamples::read(std::vector<float>& out) {
  const int64_t count = std::min(kBlock, samples_.numel() - position_);
  const float* begin = samples_.data<float>() + position_;
  out.insert(out.end(), begin, begin + count);
  position_ += count;
  return count > 0;
}

SpeechFeatures::SpeechFeatures(SampleSource& source, const Model& model) : source_(source) {
  options_.mels = model.config().integer_or("num_mel_bins", 80, 1, 1 << 12);
  restart();
  largest_ = -std::numeric_limits<float>::infinity();
  for (bool more = true; more;) {
    const size_t before = held_.size();
    more = read_on();
    largest_ = std::accumulate(held_.begin() + static_cast<std::ptrdiff_t>(before), held_.end(),
                               largest_, [](float a, float b) { return std::max(a, b); });
    drop_before(held_end() - kMostHeld);
  }
  samples_ = stream_->received() - options_.hop_length;
  all_ = held_end();
}

void SpeechFeatures::restart() {
  stream_.emplace(options_);
  held_.clear();
  first_ = 0;
  ended_ = false;
}

bool SpeechFeatures::read_on() {
  if (ended_) {
    return false;
  }
  throw_if_stopped();  // the caller of transcribe() may have gone in the hours that a recording has
  block_.clear();
  while (static_cast<int64_t>(block_.size()) < kBlock && !ended_) {
    ended_ = !source_.read(block_);
  }
  if (ended_) {
    // One frame of silence behind the recording; what is missing to a window are zeros of the
    // spectrogram, as in faster-whisper.
    block_.resize(block_.size() + static_cast<size_t>(options_.hop_length), 0.0F);
    const int64_t count = stream_->received() + static_cast<int64_t>(block_.size());
    check_data(count > options_.fft_size / 2, source_.name(),
               "is too short: {} samples at {} Hz; more than {} are wanted",
               count - options_.hop_length, options_.sample_rate,
               options_.fft_size / 2 - options_.hop_length);
  }
  stream_->add(block_, ended_, held_);
  return true;
}

int64_t SpeechFeatures::held_end() const {
  return first_ + static_cast<int64_t>(held_.size()) / options_.mels;
}

void SpeechFeatures::drop_before(int64_t begin) {
  const int64_t count = std::clamp<int64_t>(begin - first_, 0, held_end() - first_);
  held_.erase(held_.begin(), held_.begin() + count * options_.mels);
  first_ += count;
}

Tensor SpeechFeatures::window(int64_t begin, int64_t count) {
  if (begin < first_) {
    source_.rewind();
    restart();
  }
  const int64_t end = std::min(begin + count, all_);
  drop_before(begin);
  while (held_end() < end) {
    check_data(read_on(), source_.name(), "was changed while it was read");
    drop_before(begin);
  }
  const int64_t mels = options_.mels;
  Tensor result = Tensor::zeros({1, mels, count});
  const auto rows = std::span<const float>(held_).subspan(
      static_cast<size_t>((begin - first_) * mels), static_cast<size_t>((end - begin) * mels));
  normalize_log_mel(rows, largest_, mels, result.data<float>(), count);
  return result;
}

}  // namespace heed
