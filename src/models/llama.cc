#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// Llama: rotary positions, RMSNorm before each part, grouped keys and values, SwiGLU.
ModelSpec llama_spec() {
  ModelSpec spec = llama_like_spec("llama", "Llama", "llama", true);
  spec.make = [](const Json& config, const Scope& scope) {
    return make_decoder(config, scope, llama_like_config(config));
  };
  return spec;
}

/// Mistral: Llama with a sliding window, of 4096 positions where config.json does not mention it.
ModelSpec mistral_spec() {
  ModelSpec spec = llama_like_spec("mistral", "Mistral", "llama", true);
  const auto window = [](const Json& config) {
    return size_or(config, "sliding_window", config.mentions("sliding_window") ? 0 : 4096);
  };
  spec.make = [window](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(config);
    decoder.windows = {window(config)};
    return make_decoder(config, scope, decoder);
  };
  // GGUF keeps a Mistral as a Llama with a window, or one whose own configuration says so.
  spec.gguf.matches = [](const GgufMetadata& file, const Json& own) {
    return file.has("attention.sliding_window") || own.string_or("model_type", "") == "mistral";
  };
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    base(file, config);
    if (file.has("attention.sliding_window")) {
      config.set("sliding_window", file.size("attention.sliding_window", 0));
    } else {
      config.set_null("sliding_window");
    }
  };
  spec.gguf.write_config = [base = spec.gguf.write_config, window](
                               GgufOutput& file, const Json& config, const Model& model) {
    base(file, config, model);
    if (window(config) > 0) {
      file.size("attention.sliding_window", window(config));
    }
  };
  return spec;
}

}  // namespace heed
