#pragma once

#include "models/decoder.h"

namespace heed {

/// What all Gemmas share: RMSNorm times 1 + weight, embeddings times √hidden_size, GeGLU, a tied
/// head, heads of 256 columns where config.json does not say.
DecoderConfig gemma_config(const Json& config);
ModelSpec gemma_like_spec(const std::string& model_type, const std::string& family);
/// GGUF's norms already contain the + 1.
GgufSpec gemma_gguf(const std::string& architecture);

/// What Gemma 2 added and Gemma 3 kept: four norms per layer, and a scale of the scores.
void add_gemma2_parts(const Json& config, DecoderConfig& decoder);
void add_gemma2_gguf(GgufSpec& gguf, int64_t layers_of_27b);
/// A soft-cap that config.json may switch off by null.
double softcap_of(const Json& config, const char* key, double otherwise);

}  // namespace heed
