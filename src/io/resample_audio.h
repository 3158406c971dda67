#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed {

/// Brings samples that come in blocks from one rate to another, band-limited: a sinc with a Kaiser
/// window (about 90 dB down beyond the lower of the two Nyquist frequencies). The result does not
/// depend on how the samples are cut into blocks.
class AudioResampler {
 public:
  /// Rates in Hz, both positive.
  AudioResampler(int64_t from, int64_t to);

  /// Appends to `out` what is known after `block`; `last`: nothing comes behind it but silence.
  void add(std::span<const float> block, bool last, std::vector<float>& out);

 private:
  float sample_at(int64_t number) const;

  int64_t step_;                ///< input samples per `parts_` output samples
  int64_t parts_;               ///< positions between two input samples that outputs can have
  int64_t half_ = 0;            ///< taps on either side
  int64_t phases_ = 0;          ///< rows of weights_
  std::vector<float> weights_;  ///< [phases_ + 1, 2 half_]
  std::vector<float> history_;  ///< input samples from number first_ on
  int64_t first_ = 0;
  int64_t received_ = 0;
  int64_t produced_ = 0;
};

}  // namespace heed
