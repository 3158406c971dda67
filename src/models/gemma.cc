#include <cmath>

#include "models/decoder.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {
namespace {

/// What all Gemmas share: RMSNorm times 1 + weight, embeddings times √hidden_size, GeGLU, a tied
/// head, heads of 256 columns where config.json does not say.
DecoderConfig gemma_config(const Json& given) {
  const Json config = with_default(given, "head_dim", 256);
  check_bidirectional(config);
  DecoderConfig decoder = llama_like_config(config);
  decoder.norm.unit_offset = true;
  decoder.embedding_scale = std::sqrt(static_cast<double>(decoder.hidden_size));
  decoder.tied = config.boolean_or("tie_word_embeddings", true);
  // hidden_activation says it; the older hidden_act is read where that is missing.
  decoder.activation = config.has("hidden_activation")
                           ? activation_of(config, "hidden_activation", "gelu_pytorch_tanh")
                           : activation_of(config, "hidden_act", "gelu_pytorch_tanh");
  if (!config.mentions("pad_token_id")) {
    decoder.padding = 0;
  }
  return decoder;
}

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

/// GGUF's norms already contain the + 1.
GgufSpec gemma_gguf(const std::string& architecture) {
  GgufSpec gguf = llama_like_gguf(architecture, false);
  for (std::vector<GgufTensor>* list : {&gguf.tensors, &gguf.layer_tensors}) {
    for (GgufTensor& tensor : *list) {
      if (tensor.gguf.ends_with("norm")) {
        tensor.layout = GgufLayout::plus_one;
      }
    }
  }
  return gguf;
}

void add_gemma2_gguf(GgufSpec& gguf) {
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
}

ModelSpec gemma_like(const std::string& type, const std::string& family) {
  ModelSpec spec = llama_like_spec(type, family, "", false);
  spec.ties.tied_by_default = true;
  return spec;
}

}  // namespace

ModelSpec gemma_spec() {
  ModelSpec spec = gemma_like("gemma", "Gemma");
  spec.gguf = gemma_gguf("gemma");
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    base(file, config);
    config.set("hidden_act", "gelu_pytorch_tanh");
  };
  spec.make = [](const Json& config, const Scope& scope) {
    return make_decoder(config, scope, gemma_config(config));
  };
  return spec;
}

/// Gemma 2: four norms per layer, soft-caps on scores and logits, every other layer with a window.
ModelSpec gemma2_spec() {
  ModelSpec spec = gemma_like("gemma2", "Gemma2");
  spec.gguf = gemma_gguf("gemma2");
  add_gemma2_gguf(spec.gguf);
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

/// Gemma 3 (text): norms of queries and keys, five layers with a window to one without, and a
/// rotary base of its own for each kind.
ModelSpec gemma3_text_spec() {
  ModelSpec spec = gemma_like("gemma3_text", "Gemma3");
  spec.heads = {{"Gemma3TextForSequenceClassification", "text-classification", "score."},
                {"Gemma3ForCausalLM", "text-generation", "model."},
                {"Gemma3TextModel", "", ""}};
  spec.gguf = gemma_gguf("gemma3");
  add_gemma2_gguf(spec.gguf);
  add_query_key_norms(spec.gguf, GgufLayout::plus_one);
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    base(file, config);
    config.set_default("hidden_activation", "gelu_pytorch_tanh");
    config.set_default("query_pre_attn_scalar", file.size("attention.key_length", 256));
    config.set_default("rope_local_base_freq", 10000.0);
  };
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = gemma_config(config);
    add_gemma2_parts(config, decoder);
    decoder.names.query_norm = "q_norm";
    decoder.names.key_norm = "k_norm";
    decoder.attention_softcap = softcap_of(config, "attn_logit_softcapping", 0.0);
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
