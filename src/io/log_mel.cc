#include "io/log_mel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"
#include "base/parallel.h"

namespace heed {
namespace {

constexpr double kLinearStep = 200.0 / 3.0;  // Hz per mel of Slaney's scale, up to 1 kHz
constexpr double kCorner = 1000.0;
const double kLogStep = std::log(6.4) / 27.0;

double to_mel(double hertz) {
  return hertz < kCorner ? hertz / kLinearStep
                         : kCorner / kLinearStep + std::log(hertz / kCorner) / kLogStep;
}

double to_hertz(double mel) {
  const double corner = kCorner / kLinearStep;
  return mel < corner ? mel * kLinearStep : kCorner * std::exp(kLogStep * (mel - corner));
}

std::vector<MelFilter> mel_filters(const LogMelOptions& o) {
  const int64_t bins = o.fft_size / 2 + 1;
  std::vector<double> edges;
  const double top = to_mel(o.max_frequency);
  for (int64_t i = 0; i < o.mels + 2; ++i) {
    edges.push_back(to_hertz(top * static_cast<double>(i) / static_cast<double>(o.mels + 1)));
  }
  std::vector<MelFilter> filters(static_cast<size_t>(o.mels));
  const int64_t nyquist = o.sample_rate / 2;
  for (size_t m = 0; m < filters.size(); ++m) {
    for (int64_t bin = 0; bin < bins; ++bin) {
      const double hertz =
          static_cast<double>(nyquist) * static_cast<double>(bin) / static_cast<double>(bins - 1);
      const double up = (hertz - edges[m]) / (edges[m + 1] - edges[m]);
      const double down = (edges[m + 2] - hertz) / (edges[m + 2] - edges[m + 1]);
      const double height = std::min(up, down) * 2.0 / (edges[m + 2] - edges[m]);
      if (height > 0.0) {
        if (filters[m].weights.empty()) {
          filters[m].first = bin;
        }
        filters[m].weights.push_back(static_cast<float>(height));
      }
    }
  }
  return filters;
}

/// Index of a sample before the beginning or behind the end: the signal is mirrored there.
int64_t reflected(int64_t index, int64_t count) {
  const int64_t period = 2 * (count - 1);
  index = std::abs(index) % period;
  return index < count ? index : period - index;
}

std::vector<double> hann_window(int64_t size) {
  std::vector<double> window;
  for (int64_t i = 0; i < size; ++i) {
    window.push_back(0.5 - 0.5 * std::cos(2.0 * std::numbers::pi * static_cast<double>(i) /
                                          static_cast<double>(size)));
  }
  return window;
}

}  // namespace

LogMelStream::LogMelStream(const LogMelOptions& options) : options_(options) {
  const LogMelOptions& o = options_;
  check(o.fft_size >= 2 && o.hop_length >= 1 && o.mels >= 1, "log_mel_spectrogram",
        "frames of {} every {} samples in {} bands", o.fft_size, o.hop_length, o.mels);
  filters_ = mel_filters(o);
  window_ = hann_window(o.fft_size);
  fourier_.emplace(o.fft_size);
}

void LogMelStream::add(std::span<const float> samples, bool last, std::vector<float>& out) {
  const LogMelOptions& o = options_;
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  received_ += static_cast<int64_t>(samples.size());
  int64_t ready = 0;  // frames that can be computed: whole pairs, and all of them at the end
  if (last) {
    check(received_ > o.fft_size / 2, "log_mel_spectrogram", "{} samples; more than {} are wanted",
          received_, o.fft_size / 2);
    ready = received_ / o.hop_length;
  } else {
    // The frames 2p and 2p + 1 read up to sample (2p + 1) hop + fft - fft / 2, and are there only
    // if the signal has (2p + 2) hop samples.
    const int64_t behind =
        received_ - o.hop_length - std::max(o.fft_size - o.fft_size / 2, o.hop_length);
    ready = behind < 0 ? 0 : 2 * (behind / (2 * o.hop_length) + 1);
  }
  const size_t old = out.size();
  out.resize(old + static_cast<size_t>((ready - frames_) * o.mels));
  float* rows = out.data() + old;
  constexpr int64_t kGrain = 64;
  parallel_ranges((ready + 1) / 2 - frames_ / 2, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<std::complex<double>> x(static_cast<size_t>(o.fft_size));
    for (int64_t pair = begin; pair < end; ++pair) {
      const int64_t frame = frames_ + 2 * pair;
      transform_pair(frame, last, x);
      write_bands(x, std::min<int64_t>(2, ready - frame), rows + 2 * pair * o.mels);
    }
  });
  frames_ = ready;
  // What the next pair reads, and what is mirrored if the signal ends here.
  const int64_t needed =
      std::min(frames_ * o.hop_length - o.fft_size / 2, received_ - 1 - o.fft_size);
  const int64_t drop =
      std::clamp<int64_t>(needed - first_, 0, static_cast<int64_t>(samples_.size()));
  samples_.erase(samples_.begin(), samples_.begin() + drop);
  first_ += drop;
}

void LogMelStream::transform_pair(int64_t frame, bool last,
                                  std::vector<std::complex<double>>& x) const {
  const LogMelOptions& o = options_;
  // While the end is not known, no sample that is read lies behind it.
  const int64_t count = last ? received_ : std::numeric_limits<int64_t>::max() / 4;
  const float* data = samples_.data();
  // Two real frames as one complex signal: its transform holds both.
  for (int64_t i = 0; i < o.fft_size; ++i) {
    const int64_t at = frame * o.hop_length + i - o.fft_size / 2;
    const double weight = window_[static_cast<size_t>(i)];
    x[static_cast<size_t>(i)] = {
        weight * static_cast<double>(data[reflected(at, count) - first_]),
        weight * static_cast<double>(data[reflected(at + o.hop_length, count) - first_])};
  }
  fourier_->transform(x.data());
}

void LogMelStream::write_bands(const std::vector<std::complex<double>>& x, int64_t count,
                               float* rows) const {
  const LogMelOptions& o = options_;
  const int64_t bins = o.fft_size / 2 + 1;
  std::vector<double> power(static_cast<size_t>(2 * bins));
  for (int64_t k = 0; k < bins; ++k) {
    const std::complex<double> a = x[static_cast<size_t>(k)];
    const std::complex<double> b = std::conj(x[static_cast<size_t>((o.fft_size - k) % o.fft_size)]);
    power[static_cast<size_t>(k)] = std::norm(a + b) / 4.0;
    power[static_cast<size_t>(bins + k)] = std::norm(a - b) / 4.0;
  }
  for (int64_t half = 0; half < count; ++half) {
    for (int64_t m = 0; m < o.mels; ++m) {
      const MelFilter& filter = filters_[static_cast<size_t>(m)];
      double sum = 0.0;
      for (size_t i = 0; i < filter.weights.size(); ++i) {
        sum += static_cast<double>(filter.weights[i]) *
               power[static_cast<size_t>(half * bins + filter.first) + i];
      }
      rows[half * o.mels + m] = static_cast<float>(std::log10(std::max(sum, 1e-10)));
    }
  }
}

Tensor log_mel_spectrogram(const Tensor& samples_in, const LogMelOptions& o) {
  check(samples_in.rank() == 1 && is_floating(samples_in.dtype()), "log_mel_spectrogram",
        "samples must be floating [N], not {} {}", name_of(samples_in.dtype()), samples_in.shape());
  LogMelStream stream(o);
  const Tensor samples = samples_in.to(DType::f32).contiguous();
  std::vector<float> rows;
  stream.add({samples.data<float>(), static_cast<size_t>(samples.numel())}, true, rows);
  const float largest = rows.empty() ? 0.0F : *std::max_element(rows.begin(), rows.end());
  Tensor result = Tensor::empty({o.mels, stream.frames()});
  normalize_log_mel(rows, largest, o.mels, result.data<float>(), stream.frames());
  return result;
}

void normalize_log_mel(std::span<const float> rows, float largest, int64_t mels, float* out,
                       int64_t stride) {
  const int64_t frames = static_cast<int64_t>(rows.size()) / mels;
  for (int64_t m = 0; m < mels; ++m) {
    for (int64_t frame = 0; frame < frames; ++frame) {
      const float value = rows[static_cast<size_t>(frame * mels + m)];
      out[m * stride + frame] = (std::max(value, largest - 8.0F) + 4.0F) / 4.0F;
    }
  }
}

}  // namespace heed
