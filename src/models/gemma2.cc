#include <cmath>

#include "models/gemma.h"
#include "models/registry.h"

namespace heed {

void add_gemma2_parts(const Json& config, DecoderConfig& decoder) {
  decoder.names.attention_post_norm = "post_attention_layernorm";
  decoder.names.mlp_norm = "pre_feedforward_layernorm";
  decoder.names.mlp_post_norm = "post_feedforward_layernorm";
  decoder.attention_scale = 1.0 / std::sqrt(positive_or(config, "query_pre_attn_scalar", 256.0));
}

double softcap_of(const Json& config, const char* key, double otherwise) {
  return config.mentions(key) && !config.has(key) ? 0.0
                                                  : config.number_or(key, otherwise, 0.0, 1e6);
}

void add_gemma2_gguf(GgufSpec& gguf, int64_t layers_of_27b) {
  for (GgufTensor& tensor : gguf.layer_tensors) {
    if (tensor.gguf == "ffn_norm") {
      tensor.checkpoint = "pre_feedforward_layernorm";
    }
  }
  gguf.layer_tensors.push_back(
      {"post_attention_norm", "post_attention_layernorm", GgufLayout::plus_one});
  gguf.layer_tensors.push_back(
      {"post_ffw_norm", "post_feedforward_layernorm", GgufLayout::plus_one});
  gguf.keys.push_back(
      {"attention.sliding_window", "sliding_window", GgufKey::Kind::size, GgufKey::kUnset});
  // Files do not say the scale of the scores: it is the head's size, but for the largest model.
  gguf.read_config = [base = gguf.read_config, layers_of_27b](const GgufMetadata& file,
                                                              JsonBuilder& config) {
    base(file, config);
    config.set_default("hidden_activation", "gelu_pytorch_tanh");
    const Json so_far = config.build();
    const bool largest = so_far.integer("num_hidden_layers", 1, 1 << 20) == layers_of_27b;
    config.set_default("query_pre_attn_scalar",
                       largest ? so_far.integer("hidden_size", 1, 1 << 24) /
                                     so_far.integer("num_attention_heads", 1, 1 << 24)
                               : so_far.integer("head_dim", 1, 1 << 24));
  };
}

/// Gemma 2: four norms per layer, soft-caps on scores and logits, every other layer with a window.
ModelSpec gemma2_spec() {
  ModelSpec spec = gemma_like_spec("gemma2", "Gemma2");
  spec.gguf = gemma_gguf("gemma2");
  add_gemma2_gguf(spec.gguf, 46);
  spec.gguf.keys.push_back(
      {"attn_logit_softcapping", "attn_logit_softcapping", GgufKey::Kind::number, 50.0});
  spec.gguf.keys.push_back(
      {"final_logit_softcapping", "final_logit_softcapping", GgufKey::Kind::number, 30.0});
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = gemma_config(config);
    add_gemma2_parts(config, decoder);
    decoder.attention_softcap = softcap_of(config, "attn_logit_softcapping", 50.0);
    decoder.logits_softcap = softcap_of(config, "final_logit_softcapping", 30.0);
    decoder.windows =
        windows_by_layer(config, decoder.num_layers, size_or(config, "sliding_window", 4096),
                         [](int64_t layer) { return layer % 2 == 0; });
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
