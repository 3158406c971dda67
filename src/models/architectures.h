#pragma once

#include <string>

#include "heed/models.h"

namespace heed {

/// The class of transformers that opens this model, by its type and its parameters; empty for a
/// type of heed's own.
std::string hugging_face_architecture(const Model& model);

}  // namespace heed
