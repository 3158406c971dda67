#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// Qwen 2 and 2.5: Llama with biases on queries, keys and values, and an optional sliding window on
/// the layers from max_window_layers on.
ModelSpec qwen2_spec() {
  ModelSpec spec = llama_like_spec("qwen2", "Qwen2", "qwen2", false);
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(config);
    decoder.qkv_bias = true;
    decoder.output_bias = false;
    const bool on = config.boolean_or("use_sliding_window", false);
    const int64_t first = config.integer_or("max_window_layers", 28, 0, 1 << 20);
    decoder.windows = windows_by_layer(config, decoder.num_layers,
                                       on ? size_or(config, "sliding_window", 4096) : 0,
                                       [first](int64_t layer) { return layer >= first; });
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
