#include "base/check.h"
#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// SmolLM 3: Llama where every fourth layer has no rotary positions.
ModelSpec smollm3_spec() {
  ModelSpec spec = llama_like_spec("smollm3", "SmolLM3", "smollm3", true);
  spec.ties.tied_by_default = true;
  spec.make = [](const Json& given, const Scope& scope) {
    const Json config =
        with_default(with_default(given, "num_key_value_heads", 4), "rope_theta", 2e6);
    DecoderConfig decoder = llama_like_config(config);
    decoder.tied = config.boolean_or("tie_word_embeddings", true);
    const int64_t period = config.integer_or("no_rope_layer_interval", 4, 1, 1 << 20);
    std::vector<int64_t> rotated;
    if (const auto listed = config.find("no_rope_layers")) {
      rotated = listed->integers(0, 1);
      check_data(static_cast<int64_t>(rotated.size()) == decoder.num_layers, config.file(),
                 "no_rope_layers names {} layers; there are {}", rotated.size(),
                 decoder.num_layers);
    } else {
      for (int64_t i = 0; i < decoder.num_layers; ++i) {
        rotated.push_back((i + 1) % period != 0 ? 1 : 0);
      }
    }
    const Rotary rotary = decoder.rotary.front();
    decoder.rotary.clear();
    for (const int64_t on : rotated) {
      decoder.rotary.push_back(on != 0 ? rotary : Rotary());
    }
    const bool windowed = config.boolean_or("use_sliding_window", false);
    decoder.windows = windows_by_layer(
        config, decoder.num_layers, windowed ? size_or(config, "sliding_window", 0) : 0,
        [&](int64_t layer) { return rotated[static_cast<size_t>(layer)] == 0; });
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
