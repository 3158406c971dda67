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
  int64_t window = 0;  ///< patches on a side of the windows of a model with stages (Swin); 0: none
};
/// From config.json, of the encoder where the model has two parts.
VisionConfig vision_config(const Json& config);

/// The patches of a stage, and the places that they are filled up to, to the right and below, where
/// windows do not divide them.
struct StageGrid {
  int64_t rows = 0, columns = 0;
  int64_t all_rows = 0, all_columns = 0;
};
/// The grid of a stage, counted from 0: stages merge patches two by two (Swin). Of a model without
/// windows, the image's whole patches.
StageGrid stage_grid(const VisionConfig& vision, int64_t stage);

/// An image file as pixel_values f32 [1, C, H, W], by the preprocessor_config.json of the model
/// (a folder or run folder) where there is one.
Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const std::filesystem::path& image);
/// The same for an image that has been decoded.
Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const Tensor& image);

/// Features of image regions f32 [images, N, F] from a .npy file, or the tensor `features` of a
/// .safetensors file.
Tensor load_features(const std::filesystem::path& file);

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
