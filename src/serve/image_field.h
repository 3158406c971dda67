#pragma once

#include <string>
#include <vector>

#include "serve/routes.h"

namespace heed::serve {

/// Pixels of the images that a client sent in `field` as base64, or as data: URLs with base64,
/// ready for the call's model. Throws BadRequest that names the field where one is an address
/// (nothing is ever fetched) or no image, where there are too many pixels, or where there is no
/// image at all; Stopped where the client goes meanwhile.
std::vector<Tensor> read_images(const Call& call, const std::string& field);

}  // namespace heed::serve
