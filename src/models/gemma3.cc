#include "models/gemma.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {
namespace {

Json with_bases(const Json& config) {
  return with_default(with_default(config, "rope_theta", 1e6), "rope_local_base_freq", 10000.0);
}

}  // namespace

/// Gemma 3 (text): norms of queries and keys, five layers with a window to one without, and a
/// rotary base of its own for each kind.
ModelSpec gemma3_text_spec() {
  ModelSpec spec = gemma_like_spec("gemma3_text", "Gemma3");
  spec.heads = {{"Gemma3TextForSequenceClassification", "text-classification", "score."},
                {"Gemma3ForCausalLM", "text-generation", "model."},
                {"Gemma3TextModel", "", ""}};
  spec.gguf = gemma_gguf("gemma3");
  add_gemma2_gguf(spec.gguf, 62);
  add_query_key_norms(spec.gguf, GgufLayout::plus_one);
  spec.gguf.keys.push_back({"final_logit_softcapping", "final_logit_softcapping",
                            GgufKey::Kind::number, GgufKey::kUnset});
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    base(file, config);
    config.set_default("rope_local_base_freq", file.number("rope.freq_base_swa", 10000.0));
  };
  spec.gguf.write_config = [base = spec.gguf.write_config](GgufOutput& file, const Json& config,
                                                           const Model& model) {
    base(file, with_bases(config), model);
    file.number("rope.freq_base_swa", rotary_theta(with_bases(config), "sliding_attention"));
  };
  spec.make = [](const Json& given, const Scope& scope) {
    const Json config = with_bases(given);
    DecoderConfig decoder = gemma_config(config);
    add_gemma2_parts(config, decoder);
    decoder.names.query_norm = "q_norm";
    decoder.names.key_norm = "k_norm";
    // attn_logit_softcapping stands in its configuration, but its scores have no cap.
    decoder.logits_softcap = softcap_of(config, "final_logit_softcapping", 0.0);
    const int64_t period = config.integer_or("sliding_window_pattern", 6, 1, 1 << 20);
    decoder.windows =
        windows_by_layer(config, decoder.num_layers, size_or(config, "sliding_window", 4096),
                         [period](int64_t layer) { return (layer + 1) % period != 0; });
    decoder.rotary.clear();
    for (const int64_t window : decoder.windows) {
      decoder.rotary.push_back(
          rotary_of(config, decoder.head_dim, decoder.context_length,
                    {.layer_type = window > 0 ? "sliding_attention" : "full_attention"}));
    }
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
