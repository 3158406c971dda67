#include "serve/image_field.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "base/throw_if_stopped.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "pipelines/image_input.h"

namespace heed::serve {
namespace {

constexpr int64_t kMillion = 1'000'000;
// A picture of a few kB may have more pixels than anybody wants to wait for.
constexpr int64_t kMostPixels = 32 * kMillion;           // of one image
constexpr int64_t kMostPixelsOfRequest = 64 * kMillion;  // of all its images together

/// The pixels of one image, as they came: u8 [channels, height, width].
Tensor decode(const VisionConfig& vision, const std::string& text, const std::string& param) {
  std::string_view data = text;
  if (data.starts_with("data:")) {
    const size_t comma = data.find(',');
    if (comma == std::string_view::npos || !data.substr(0, comma).ends_with(";base64")) {
      throw BadRequest(fmt::format("'{}' is a data: URL without base64", param), param);
    }
    data.remove_prefix(comma + 1);
  } else if (data.find("://") != std::string_view::npos) {
    throw BadRequest(
        fmt::format("'{}' is an address; the server fetches nothing. Send the image as base64",
                    param),
        param);
  }
  return decode_image(decode_base64(data, param), param, static_cast<int>(vision.channels),
                      kMostPixels);
}

}  // namespace

std::vector<Tensor> read_images(const Call& call, const std::string& field) {
  std::vector<Tensor> all;
  int64_t pixels = 0;
  try {
    const VisionConfig vision = vision_config(call.model->model->config());
    for (const std::string& text : call.texts(field)) {
      throw_if_stopped();
      const Tensor image = decode(vision, text, field);
      pixels += image.size(1) * image.size(2);
      if (pixels > kMostPixelsOfRequest) {
        throw BadRequest(
            fmt::format("the images of '{}' have more than {} million pixels together; send fewer "
                        "or smaller ones per request",
                        field, kMostPixelsOfRequest / kMillion),
            field, "too_many_pixels");
      }
      all.push_back(model_pixels(vision, call.model->path, image));
    }
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    throw BadRequest(error.what(), field, "invalid_image");
  }
  if (all.empty()) {
    throw BadRequest(fmt::format("'{}' is missing or an empty list", field), field);
  }
  return all;
}

}  // namespace heed::serve
