#include "pipelines/image_input.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "heed/io.h"
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

/// How an image is scaled and cropped.
struct Framing {
  int64_t shortest_edge = 0;  ///< > 0: the shorter side, with the same proportions
  ImageSize size;             ///< otherwise both sides
  ImageSize crop;             ///< the middle part of that; 0 x 0: all of it
  Resample filter = Resample::bilinear;
};

/// From preprocessor_config.json by the names of Hugging Face's image processors; `size` is what
/// the model wants where it does not say.
Framing framing_of(const Json& config, const ImageSize& size) {
  constexpr int64_t kMost = 1 << 12;
  constexpr int64_t kBicubic = 3;
  const std::string type =
      config.string_or("image_processor_type", config.string_or("feature_extractor_type", ""));
  const bool clip = type.find("CLIP") != std::string::npos;
  const bool bicubic =
      clip || type.find("Siglip") != std::string::npos || type.find("DeiT") != std::string::npos;
  Framing framing;
  framing.size = size;
  framing.filter = config.integer_or("resample", bicubic ? kBicubic : 2, 0, 5) == kBicubic
                       ? Resample::bicubic
                       : Resample::bilinear;
  const auto sides_of = [&](const Json& given) {
    return ImageSize{given.integer("height", 1, kMost), given.integer("width", 1, kMost)};
  };
  if (const auto given = config.find("size")) {
    if (given->is_object() && given->has("shortest_edge")) {
      framing.shortest_edge = given->integer("shortest_edge", 1, kMost);
    } else if (given->is_object() && given->has("height")) {
      framing.size = sides_of(*given);
    } else if (given->is_integer()) {
      const int64_t side = given->integer(1, kMost);
      framing.size = {side, side};
      framing.shortest_edge = clip ? side : 0;
    }
  }
  if (config.boolean_or("do_center_crop", false)) {
    framing.crop = size;
    if (const auto given = config.find("crop_size")) {
      const int64_t side = given->is_integer() ? given->integer(1, kMost) : 0;
      framing.crop = given->is_object() && given->has("height") ? sides_of(*given)
                     : side > 0                                 ? ImageSize{side, side}
                                                                : size;
    }
  }
  return framing;
}

Tensor framed(const Tensor& image, const Framing& framing) {
  ImageSize size = framing.size;
  if (framing.shortest_edge > 0) {
    const int64_t height = image.size(1), width = image.size(2);
    const int64_t edge = framing.shortest_edge;
    size = height <= width ? ImageSize{edge, edge * width / height}
                           : ImageSize{edge * height / width, edge};
  }
  const Tensor resized = resize_image(image, size.height, size.width, framing.filter);
  const bool crops = framing.crop.height > 0 && framing.crop.height <= size.height &&
                     framing.crop.width <= size.width;
  return crops ? center_crop(resized, framing.crop.height, framing.crop.width) : resized;
}

/// pixel_values f32 [1, C, H, W], as preprocessor_config.json wants them where it is there.
Tensor pixels_of(const Tensor& image, const VisionConfig& vision,
                 const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "preprocessor_config.json";
  const bool exists = std::filesystem::exists(file);
  const Json config = exists ? Json::read(file) : Json::parse("{}", file.string());
  const Tensor pixels = normalize_image(framed(image, framing_of(config, vision.image)),
                                        three(config, "image_mean"), three(config, "image_std"),
                                        config.number_or("rescale_factor", 1.0 / 255, 0, 1e3));
  // A model with windows fills images up.
  check_data(vision.window > 0 ||
                 (pixels.size(1) >= vision.patch.height && pixels.size(2) >= vision.patch.width),
             (exists ? file : folder / "config.json").string(),
             "images become {} x {} pixels, less than a patch of the model, {} x {}",
             pixels.size(1), pixels.size(2), vision.patch.height, vision.patch.width);
  return reshape(pixels, {1, pixels.size(0), pixels.size(1), pixels.size(2)});
}

}  // namespace

VisionConfig vision_config(const Json& config) {
  const auto tower = config.find("vision_config");
  const Json vision = tower ? *tower : config.find("encoder").value_or(config);
  constexpr int64_t kClipPatch = 32;
  const bool clip = config.string_or("model_type", "").starts_with("clip");
  return {image_size_of(vision, "image_size", 224),
          image_size_of(vision, "patch_size", clip ? kClipPatch : 16),
          vision.integer_or("num_channels", 3, 1, 3),
          vision.has("depths") ? vision.integer_or("window_size", 7, 1, 1024) : 0};
}

StageGrid stage_grid(const VisionConfig& vision, int64_t stage) {
  const int64_t window = std::max<int64_t>(vision.window, 1);
  const auto up = [](int64_t value, int64_t of) { return (value + of - 1) / of; };
  StageGrid grid;
  // A model with windows fills up images that patches do not divide; others leave the rest out.
  grid.rows = vision.window > 0 ? up(vision.image.height, vision.patch.height)
                                : vision.image.height / vision.patch.height;
  grid.columns = vision.window > 0 ? up(vision.image.width, vision.patch.width)
                                   : vision.image.width / vision.patch.width;
  for (; stage > 0; --stage) {
    grid.rows = up(grid.rows, 2);
    grid.columns = up(grid.columns, 2);
  }
  grid.all_rows = up(grid.rows, window) * window;
  grid.all_columns = up(grid.columns, window) * window;
  return grid;
}

Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const Tensor& image) {
  const bool run = std::filesystem::exists(model / "model" / "config.json");
  return pixels_of(image, vision, run ? model / "model" : model);
}

Tensor model_pixels(const VisionConfig& vision, const std::filesystem::path& model,
                    const std::filesystem::path& image) {
  return model_pixels(vision, model, load_image(image, static_cast<int>(vision.channels)));
}

ReadableImages read_images(const VisionConfig& vision, const std::filesystem::path& model,
                           const std::vector<std::filesystem::path>& images,
                           const std::vector<size_t>& together, const RunOptions& run) {
  ReadableImages readable;
  std::vector<Tensor> pixels;
  for (const size_t i : together) {
    try {
      pixels.push_back(model_pixels(vision, model, images[i]));
      readable.inputs.push_back(i);
    } catch (const Error& error) {
      if (!run.on_error) {
        throw;
      }
      run.on_error(i, error.what());
    }
  }
  if (!pixels.empty()) {
    readable.pixels = concat(pixels, 0);
  }
  return readable;
}

}  // namespace heed
