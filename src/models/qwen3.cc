#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// Qwen 3: Llama with RMSNorm on each head's queries and keys before the rotation.
ModelSpec qwen3_spec() {
  ModelSpec spec = llama_like_spec("qwen3", "Qwen3", "qwen3", false);
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(with_default(config, "head_dim", 128));
    decoder.names.query_norm = "q_norm";
    decoder.names.key_norm = "k_norm";
    const bool on = config.boolean_or("use_sliding_window", false);
    const int64_t first = config.integer_or("max_window_layers", 28, 0, 1 << 20);
    decoder.windows = windows_by_layer(config, decoder.num_layers,
                                       on ? size_or(config, "sliding_window", 4096) : 0,
                                       [first](int64_t layer) { return layer >= first; });
    return make_decoder(config, scope, decoder);
  };
  add_query_key_norms(spec.gguf);
  return spec;
}

}  // namespace heed
