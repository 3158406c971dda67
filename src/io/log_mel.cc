#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/io.h"
#include "kernels/fourier.h"

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

/// One triangle over neighbouring frequencies, of area 1.
struct MelFilter {
  int64_t first = 0;
  std::vector<float> weights;
};

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

}  // namespace

Tensor log_mel_spectrogram(const Tensor& samples_in, const LogMelOptions& o) {
  check(samples_in.rank() == 1 && is_floating(samples_in.dtype()), "log_mel_spectrogram",
        "samples must be floating [N], not {} {}", name_of(samples_in.dtype()), samples_in.shape());
  check(o.fft_size >= 2 && o.hop_length >= 1 && o.mels >= 1, "log_mel_spectrogram",
        "frames of {} every {} samples in {} bands", o.fft_size, o.hop_length, o.mels);
  const Tensor samples = samples_in.to(DType::f32).contiguous();
  const int64_t count = samples.numel();
  check(count > o.fft_size / 2, "log_mel_spectrogram", "{} samples; more than {} are wanted", count,
        o.fft_size / 2);
  const int64_t frames = count / o.hop_length;
  const int64_t bins = o.fft_size / 2 + 1;
  const std::vector<MelFilter> filters = mel_filters(o);
  const kernels::Fourier fourier(o.fft_size);
  std::vector<double> window;
  for (int64_t i = 0; i < o.fft_size; ++i) {
    window.push_back(0.5 - 0.5 * std::cos(2.0 * std::numbers::pi * static_cast<double>(i) /
                                          static_cast<double>(o.fft_size)));
  }
  Tensor result = Tensor::empty({o.mels, frames});
  float* out = result.data<float>();
  constexpr int64_t kGrain = 64;
  parallel_ranges((frames + 1) / 2, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<std::complex<double>> x(static_cast<size_t>(o.fft_size));
    std::vector<double> power(static_cast<size_t>(2 * bins));
    for (int64_t pair = begin; pair < end; ++pair) {
      // Two real frames as one complex signal: its transform holds both.
      for (int64_t i = 0; i < o.fft_size; ++i) {
        const int64_t at = 2 * pair * o.hop_length + i - o.fft_size / 2;
        const double weight = window[static_cast<size_t>(i)];
        const float* data = samples.data<float>();
        x[static_cast<size_t>(i)] = {
            weight * static_cast<double>(data[reflected(at, count)]),
            weight * static_cast<double>(data[reflected(at + o.hop_length, count)])};
      }
      fourier.transform(x.data());
      for (int64_t k = 0; k < bins; ++k) {
        const std::complex<double> a = x[static_cast<size_t>(k)];
        const std::complex<double> b =
            std::conj(x[static_cast<size_t>((o.fft_size - k) % o.fft_size)]);
        power[static_cast<size_t>(k)] = std::norm(a + b) / 4.0;
        power[static_cast<size_t>(bins + k)] = std::norm(a - b) / 4.0;
      }
      for (int64_t half = 0; half < 2 && 2 * pair + half < frames; ++half) {
        for (int64_t m = 0; m < o.mels; ++m) {
          const MelFilter& filter = filters[static_cast<size_t>(m)];
          double sum = 0.0;
          for (size_t i = 0; i < filter.weights.size(); ++i) {
            sum += static_cast<double>(filter.weights[i]) *
                   power[static_cast<size_t>(half * bins + filter.first) + i];
          }
          out[m * frames + 2 * pair + half] = static_cast<float>(std::log10(std::max(sum, 1e-10)));
        }
      }
    }
  });
  const float largest = *std::max_element(out, out + result.numel());
  for (int64_t i = 0; i < result.numel(); ++i) {
    out[i] = (std::max(out[i], largest - 8.0f) + 4.0f) / 4.0f;
  }
  return result;
}

}  // namespace heed
