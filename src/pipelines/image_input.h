#pragma once

#include <filesystem>
#include <vector>

#include "heed/io.h"
#include "heed/pipelines.h"
#include "heed/tensor.h"

namespace heed {

struct ImageSize {
  int64_t height = 0, width = 0;
};

/// What a model that sees wants to be shown.
struct VisionConfig {
  ImageSize image, patch;
  int64_t channels = 3;
};
/// From config.json, of the encoder where the model has two parts.
VisionConfig vision_config(const Json& config);

/// An image file as pixel_values f32 [1, C, H, W], by the preprocessor_config.json of the model
/// (a folder or run folder) where there is one.
Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const std::filesystem::path& image);
/// The same for an image that has been decoded.
Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const Tensor& image);

/// The images of a batch that can be read.
struct ReadableImages {
  std::vector<size_t> inputs;  ///< their indices among all
  Tensor pixels;               ///< f32 [inputs, C, H, W]; undefined where there are none
};
/// Reads those of `images` that `together` names. One that cannot be read goes to `run.on_error`;
/// where that is not set, its error is thrown.
ReadableImages read_images(const VisionConfig& vision, const std::filesystem::path& model,
                           const std::vector<std::filesystem::path>& images,
                           const std::vector<size_t>& together, const RunOptions& run);

}  // namespace heed
