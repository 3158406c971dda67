#pragma once

#include "heed/io.h"
#include "heed/models.h"

namespace heed {

/// Rotary scaling of a GGUF file, in a form that transformers can read too.
void read_gguf_rope(const GgufMetadata& file, JsonBuilder& config);
/// Whether a tensor belongs to it and not to the model's parameters.
bool is_gguf_rope(std::string_view tensor);
/// Writes the base and the scaling as llama.cpp reads them. `dim`: rotated columns of a head.
void write_gguf_rope(GgufOutput& file, const Json& config, int64_t dim);

}  // namespace heed
