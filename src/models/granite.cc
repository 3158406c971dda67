#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// Granite: Llama with multipliers on embeddings, residuals and scores, and divided logits.
ModelSpec granite_spec() {
  ModelSpec spec = llama_like_spec("granite", "Granite", "granite", true);
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(config);
    decoder.embedding_scale = positive_or(config, "embedding_multiplier", 1.0);
    decoder.residual_scale = positive_or(config, "residual_multiplier", 1.0);
    decoder.attention_scale = positive_or(config, "attention_multiplier", 1.0);
    decoder.logits_scale = 1.0 / positive_or(config, "logits_scaling", 1.0);
    return make_decoder(config, scope, decoder);
  };
  using Kind = GgufKey::Kind;
  spec.gguf.keys.push_back({"embedding_scale", "embedding_multiplier", Kind::number, 1.0});
  spec.gguf.keys.push_back({"residual_scale", "residual_multiplier", Kind::number, 1.0});
  spec.gguf.keys.push_back({"attention.scale", "attention_multiplier", Kind::number, 1.0});
  spec.gguf.keys.push_back({"logit_scale", "logits_scaling", Kind::number, 1.0});
  return spec;
}

}  // namespace heed
