#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/base64.h"
#include "base/check.h"
#include "explore/trace.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "pipelines/image_input.h"

// What models that do not read text are shown: pictures, features of their regions, recordings.

namespace heed::explore {
namespace {

/// A file of its own for bytes that came with a request; removed at the end.
class TemporaryFile {
 public:
  TemporaryFile(std::string_view bytes, const std::string& extension)
      : path_(std::filesystem::temp_directory_path() / ("heed-XXXXXX" + extension)) {
    std::string name = path_.native();
    const int file = mkstemps(name.data(), static_cast<int>(extension.size()));
    check(file >= 0, "explore", "no file can be made in {}", path_.parent_path().native());
    close(file);
    path_ = name;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A picture to begin with: a bright disc on a dark ground.
Tensor example_picture(const VisionConfig& vision) {
  Tensor pixels = Tensor::zeros({1, vision.channels, vision.image.height, vision.image.width});
  const auto height = static_cast<double>(vision.image.height);
  const auto width = static_cast<double>(vision.image.width);
  float* out = pixels.data<float>();
  for (int64_t i = 0; i < pixels.numel(); ++i) {
    const int64_t x = i % vision.image.width;
    const int64_t y = i / vision.image.width % vision.image.height;
    const double dy = static_cast<double>(y) / height - 0.5;
    const double dx = static_cast<double>(x) / width - 0.5;
    out[i] = dx * dx + dy * dy < 0.09 ? 1.0F : -1.0F;
  }
  return pixels;
}

VisionConfig vision_of(const ExplorerModel& model) { return vision_config(model.model->config()); }

}  // namespace

Tensor image_input(const ExplorerModel& model, const std::optional<std::string>& image) {
  constexpr uint64_t kMostPixels = 32'000'000;
  const VisionConfig vision = vision_of(model);
  if (!image) {
    return example_picture(vision);
  }
  const std::string bytes = decode_base64(*image, "image");
  return model_pixels(vision, model.path,
                      decode_image(bytes, "image", static_cast<int>(vision.channels), kMostPixels));
}

std::string seen_picture(const ExplorerModel& model, const Tensor& pixels) {
  const VisionConfig vision = vision_of(model);
  const int64_t height = pixels.size(2), width = pixels.size(3), plane = height * width;
  // What black and white become tells how the numbers were normalised.
  const auto level = [&](uint8_t value) {
    return model_pixels(vision, model.path,
                        Tensor::full({vision.channels, height, width}, value, DType::u8));
  };
  const Tensor black = level(0), white = level(255);
  const Tensor picture = Tensor::empty({height, width, 3}, DType::u8);
  for (int64_t c = 0; c < 3; ++c) {
    const int64_t at = std::min(c, vision.channels - 1) * plane;
    const double low = black.data<float>()[at], high = white.data<float>()[at];
    for (int64_t i = 0; i < plane; ++i) {
      const double share = (pixels.data<float>()[at + i] - low) / (high - low);
      picture.data<uint8_t>()[i * 3 + c] =
          static_cast<uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * 255.0));
    }
  }
  return encode_png(picture);
}

Tensor speech_input(const ExplorerModel& model, const std::optional<std::string>& audio) {
  constexpr int64_t kFramesPerPosition = 2;
  const Json& config = model.model->config();
  const int64_t frames =
      kFramesPerPosition * config.integer_or("max_source_positions", 1500, 1, 1 << 20);
  LogMelOptions mel;
  mel.mels = config.integer_or("num_mel_bins", 80, 1, 1 << 12);
  // One window, as the model reads it: silence behind what is there, the rest left out.
  const Tensor samples = Tensor::zeros({frames * mel.hop_length});
  if (audio) {
    const Tensor sound =
        decode_audio(decode_base64(*audio, "audio"), "audio", mel.sample_rate, samples.numel());
    std::copy_n(sound.data<float>(), sound.numel(), samples.data<float>());
  }
  const Tensor features = log_mel_spectrogram(samples, mel);
  return reshape(slice(features, 1, 0, frames), {1, mel.mels, frames}).contiguous();
}

Tensor feature_input(const ExplorerModel& model, const std::optional<std::string>& features) {
  constexpr int64_t kRegions = 36;
  const int64_t size = model.model->config().integer_or("feature_size", 2048, 1, 1 << 20);
  if (!features) {  // waves of different lengths: an example that is no picture
    Tensor example = Tensor::empty({1, kRegions, size});
    for (int64_t i = 0; i < example.numel(); ++i) {
      const int64_t region = i / size + 1, at = i % size + 1;
      example.data<float>()[i] = static_cast<float>(
          std::sin(0.37 * static_cast<double>(region) * static_cast<double>(at)));
    }
    return example;
  }
  const std::string bytes = decode_base64(*features, "features");
  const TemporaryFile file(bytes, bytes.starts_with("\x93NUMPY") ? ".npy" : ".safetensors");
  const Tensor all = load_features(file.path());
  if (all.size(0) != 1 || all.size(2) != size) {
    throw Failure(400, "invalid",
                  fmt::format("the file has {} images with {} features for each region; one image "
                              "with {} is wanted",
                              all.size(0), all.size(2), size),
                  "features");
  }
  return all.clone();
}

}  // namespace heed::explore
