#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// OLMo 2: norms after attention and feed-forward only; queries and keys normed as a whole.
ModelSpec olmo2_spec() {
  ModelSpec spec = llama_like_spec("olmo2", "Olmo2", "olmo2", false);
  use_norm_eps(spec.gguf, 1e-5);
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(with_default(config, "rms_norm_eps", 1e-5));
    use_post_norms(decoder);
    decoder.names.query_norm = "q_norm";
    decoder.names.key_norm = "k_norm";
    decoder.norm_per_head = false;
    if (!config.mentions("pad_token_id")) {
      decoder.padding = 1;
    }
    return make_decoder(config, scope, decoder);
  };
  use_post_norms(spec.gguf);
  add_query_key_norms(spec.gguf);
  return spec;
}

}  // namespace heed
