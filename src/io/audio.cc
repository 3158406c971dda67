#include <algorithm>

#include "heed/io.h"
#include "io/audio_reader.h"

namespace heed {
namespace {

Tensor first_samples(AudioReader&& reader, int64_t most_samples) {
  std::vector<float> samples;
  while (static_cast<int64_t>(samples.size()) < most_samples && reader.read(samples)) {
  }
  samples.resize(static_cast<size_t>(std::min(static_cast<int64_t>(samples.size()), most_samples)));
  return Tensor::from(samples, {static_cast<int64_t>(samples.size())});
}

}  // namespace

Tensor decode_audio(std::string_view bytes, const std::string& name, int64_t sample_rate,
                    int64_t most_samples) {
  return first_samples(AudioReader(bytes, name, sample_rate), most_samples);
}

Tensor load_audio(const std::filesystem::path& path, int64_t sample_rate, int64_t most_samples) {
  return first_samples(AudioReader(path, sample_rate), most_samples);
}

}  // namespace heed
