#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "heed/io.h"
#include "io/resample_audio.h"

namespace heed {
namespace {

constexpr int64_t kMostSeconds = 6 * 60 * 60;
constexpr int64_t kBlock = 1 << 12;  // frames that are read at a time

/// libsndfile's view of bytes in memory.
struct Bytes {
  std::string_view data;
  sf_count_t position = 0;

  static sf_count_t length(void* self) {
    return static_cast<sf_count_t>(static_cast<Bytes*>(self)->data.size());
  }
  static sf_count_t seek(sf_count_t offset, int whence, void* self) {
    Bytes& bytes = *static_cast<Bytes*>(self);
    const sf_count_t base = whence == SEEK_CUR   ? bytes.position
                            : whence == SEEK_END ? length(self)
                                                 : 0;
    const sf_count_t wanted = base + offset;
    if (wanted < 0 || wanted > length(self)) {
      return -1;
    }
    return bytes.position = wanted;
  }
  static sf_count_t read(void* out, sf_count_t count, void* self) {
    Bytes& bytes = *static_cast<Bytes*>(self);
    const sf_count_t given = std::clamp<sf_count_t>(length(self) - bytes.position, 0, count);
    std::memcpy(out, bytes.data.data() + bytes.position, static_cast<size_t>(given));
    bytes.position += given;
    return given;
  }
  static sf_count_t write(const void*, sf_count_t, void*) { return 0; }
  static sf_count_t tell(void* self) { return static_cast<Bytes*>(self)->position; }
};

}  // namespace

Tensor decode_audio(std::string_view bytes, const std::string& name, int64_t sample_rate) {
  check(sample_rate >= 1000 && sample_rate <= 400000, "decode_audio",
        "a sample rate of {}; 1000 to 400000 is wanted", sample_rate);
  Bytes source{bytes};
  SF_VIRTUAL_IO calls{Bytes::length, Bytes::seek, Bytes::read, Bytes::write, Bytes::tell};
  SF_INFO info{};
  const auto close = [](SNDFILE* file) { sf_close(file); };
  const std::unique_ptr<SNDFILE, decltype(close)> file(
      sf_open_virtual(&calls, SFM_READ, &info, &source), close);
  check_data(file != nullptr, name, "is no audio that can be read ({}); use WAV, FLAC or OGG",
             sf_strerror(nullptr));
  check_data(info.channels >= 1 && info.channels <= 64 && info.samplerate >= 1000 &&
                 info.samplerate <= 400000,
             name, "has {} channels at {} Hz; 1 to 64 channels at 1 to 400 kHz are read",
             info.channels, info.samplerate);
  AudioResampler resampler(info.samplerate, sample_rate);
  std::vector<float> samples;
  std::vector<float> frames(static_cast<size_t>(kBlock * info.channels));
  std::vector<float> block;
  for (bool last = false; !last;) {
    const sf_count_t count = sf_readf_float(file.get(), frames.data(), kBlock);
    last = count < kBlock;
    block.assign(static_cast<size_t>(count), 0.0f);
    for (size_t i = 0; i < block.size(); ++i) {
      for (int channel = 0; channel < info.channels; ++channel) {
        block[i] += frames[i * static_cast<size_t>(info.channels) + static_cast<size_t>(channel)];
      }
      block[i] /= static_cast<float>(info.channels);
      check_data(std::isfinite(block[i]), name, "holds samples that are no numbers");
    }
    resampler.add(block, last, samples);
    check_data(static_cast<int64_t>(samples.size()) <= kMostSeconds * sample_rate, name,
               "is longer than {} hours; split it", kMostSeconds / 3600);
  }
  check_data(sf_error(file.get()) == SF_ERR_NO_ERROR, name, "is broken: {}",
             sf_strerror(file.get()));
  return Tensor::from(samples, {static_cast<int64_t>(samples.size())});
}

Tensor load_audio(const std::filesystem::path& path, int64_t sample_rate) {
  return decode_audio(read_file(path), path.native(), sample_rate);
}

}  // namespace heed
