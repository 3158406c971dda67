#include "serve/image_field.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "pipelines/image_input.h"

namespace heed::serve {
namespace {

constexpr uint64_t kMostPixels = 32'000'000;  // of one image: a picture of a few kB may have more

}  // namespace

Tensor read_image(const Call& call, const std::string& text, const std::string& param) {
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
  try {
    const VisionConfig vision = vision_config(call.model->model->config());
    const Tensor image = decode_image(decode_base64(data, param), param,
                                      static_cast<int>(vision.channels), kMostPixels);
    return model_pixels(vision, call.model->path, image);
  } catch (const Error& error) {
    throw BadRequest(error.what(), param, "invalid_image");
  }
}

}  // namespace heed::serve
