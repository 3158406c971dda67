#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "heed/tensor.h"

namespace heed {

/// Each decodes to u8 [H, W, C] with C 1 or 3; throws kind data with `name`.
Tensor decode_png(std::string_view bytes, const std::string& name, uint64_t max_pixels);
Tensor decode_jpeg(std::string_view bytes, const std::string& name, uint64_t max_pixels);
Tensor decode_netpbm(std::string_view bytes, const std::string& name, uint64_t max_pixels);

/// Refuses a size that a file claims: an empty image, or one of more than `max_pixels`.
void check_image_size(uint64_t height, uint64_t width, const std::string& name,
                      uint64_t max_pixels);

/// Memory for an image of a size that a file claims, which is checked.
Tensor empty_image(uint64_t height, uint64_t width, int channels, const std::string& name,
                   uint64_t max_pixels);

}  // namespace heed
