#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heed/io.h"
#include "kernels/fourier.h"

namespace heed {

/// One triangle over neighbouring frequencies, of area 1.
struct MelFilter {
  int64_t first = 0;
  std::vector<float> weights;
};

/// The frames of a log-mel spectrogram whose samples come in blocks: log10 of the energy in each
/// band, before the normalization that needs the largest of all. The result does not depend on how
/// the samples are cut into blocks.
class LogMelStream {
 public:
  explicit LogMelStream(const LogMelOptions& options);

  /// Takes further samples and appends the frames that are now complete to `out`, [frames, mels];
  /// `last`: none come behind them, and the signal is mirrored there.
  void add(std::span<const float> samples, bool last, std::vector<float>& out);

  int64_t frames() const { return frames_; }      ///< given so far
  int64_t received() const { return received_; }  ///< samples

 private:
  /// The spectra of the frames `frame` and `frame + 1`.
  void transform_pair(int64_t frame, bool last, std::vector<std::complex<double>>& x) const;
  void write_bands(const std::vector<std::complex<double>>& x, int64_t count, float* rows) const;

  LogMelOptions options_;
  std::vector<MelFilter> filters_;
  std::vector<double> window_;
  std::optional<kernels::Fourier> fourier_;
  std::vector<float> samples_;  ///< from number first_ on
  int64_t first_ = 0;
  int64_t received_ = 0;
  int64_t frames_ = 0;  ///< even until the end
};

/// Writes frames [frames, mels] to out [mels, stride] as Whisper reads them: at most 8 below
/// `largest`, moved by 4 and divided by 4.
void normalize_log_mel(std::span<const float> rows, float largest, int64_t mels, float* out,
                       int64_t stride);

}  // namespace heed
