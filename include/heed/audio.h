#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "heed/export.h"
#include "heed/tensor.h"

// Speech as models read it: samples of one channel, and their log-mel spectrogram.

namespace heed {

/// An audio file as f32 [samples] of one channel at `sample_rate`: WAV, FLAC, OGG and what else
/// libsndfile reads, told apart by content. Channels are averaged, other rates resampled. A broken
/// file, or one of more than six hours, throws kind data.
HEED_API Tensor load_audio(const std::filesystem::path& path, int64_t sample_rate = 16000);
/// The same for bytes in memory; `name` is for messages.
HEED_API Tensor decode_audio(std::string_view bytes, const std::string& name,
                             int64_t sample_rate = 16000);

/// How a spectrogram is taken; the defaults are Whisper's.
struct LogMelOptions {
  int64_t sample_rate = 16000;
  int64_t fft_size = 400;    ///< samples of a frame (n_fft)
  int64_t hop_length = 160;  ///< samples from one frame to the next
  int64_t mels = 80;         ///< bands, of Slaney's scale
  double max_frequency = 8000.0;
};

/// The log-mel spectrogram of samples [N] as Whisper reads it: f32 [mels, N / hop_length], squared
/// magnitudes of Hann windows in mel bands, log10, at most 8 below the largest, moved by 4 and
/// divided by 4.
HEED_API Tensor log_mel_spectrogram(const Tensor& samples, const LogMelOptions& options = {});

}  // namespace heed
