#pragma once

#include <string>

#include "heed/io.h"

namespace heed {

/// Weights that config.json ties, as files keep them. The embedding may be stored under the head's
/// name alone (safetensors' save_model keeps the name that comes first): it gets its own name back.
/// Both may be there with different values: then they are two matrices, as transformers 5 reads
/// them, and the result is the configuration that says so. Else the configuration as it is.
Json resolve_tied_weights(const Json& config, TensorMap& tensors);

}  // namespace heed
