#include "pipelines/image_input.h"

#include <algorithm>
#include <array>

#include "heed/image.h"
#include "heed/ops.h"

namespace heed {
namespace {

std::array<double, 3> three(const Json& list, const char* key) {
  std::array<double, 3> values{0.5, 0.5, 0.5};
  if (const auto found = list.find(key)) {
    for (size_t i = 0; i < std::min<size_t>(found->size(), 3); ++i) {
      values[i] = (*found)[i].number(-1e3, 1e3);
    }
  }
  return values;
}

/// A size as one number or as [height, width].
ImageSize image_size_of(const Json& config, const char* key, int64_t otherwise) {
  constexpr int64_t kMost = 1 << 12;
  const auto found = config.find(key);
  if (found && found->is_array() && found->size() == 2) {
    return {(*found)[0].integer(1, kMost), (*found)[1].integer(1, kMost)};
  }
  const int64_t side = config.integer_or(key, otherwise, 1, kMost);
  return {side, side};
}

/// pixel_values f32 [1, C, H, W], as preprocessor_config.json wants them where it is there.
Tensor pixels_of(const Tensor& image, const ImageSize& size, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "preprocessor_config.json";
  const Json config =
      std::filesystem::exists(file) ? Json::read(file) : Json::parse("{}", file.string());
  const Tensor pixels = normalize_image(resize_image(image, size.height, size.width),
                                        three(config, "image_mean"), three(config, "image_std"),
                                        config.number_or("rescale_factor", 1.0 / 255, 0, 1e3));
  return reshape(pixels, {1, pixels.size(0), size.height, size.width});
}

}  // namespace

VisionConfig vision_config(const Json& config) {
  const Json vision = config.find("encoder").value_or(config);
  return {image_size_of(vision, "image_size", 224), image_size_of(vision, "patch_size", 16),
          vision.integer_or("num_channels", 3, 1, 3)};
}

Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const Tensor& image) {
  const bool run = std::filesystem::exists(model / "model" / "config.json");
  return pixels_of(image, vision.image, run ? model / "model" : model);
}

Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const std::filesystem::path& image) {
  return model_pixels(vision, model, load_image(image, static_cast<int>(vision.channels)));
}

}  // namespace heed
