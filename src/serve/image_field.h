#pragma once

#include <string>

#include "serve/routes.h"

namespace heed::serve {

/// Pixels of an image that a client sent as base64, or as a data: URL with base64, ready for the
/// call's model. Throws BadRequest that names `param` where it is an address (nothing is ever
/// fetched), no image, or has too many pixels.
Tensor read_image(const Call& call, const std::string& text, const std::string& param);

}  // namespace heed::serve
