#include "base/check.h"
#include "models/decoder.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {

/// Phi 1 and 2: attention and feed-forward in parallel behind one LayerNorm, rotation of part of a
/// head, biases everywhere.
ModelSpec phi_spec() {
  ModelSpec spec = llama_like_spec("phi", "Phi", "", false);
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(config);
    decoder.norm = {.eps = positive_or(config, "layer_norm_eps", 1e-5)};
    decoder.names.output = "dense";
    decoder.names.gate.clear();
    decoder.names.up = "fc1";
    decoder.names.down = "fc2";
    decoder.names.mlp_norm.clear();
    decoder.names.final_norm = "final_layernorm";
    if (config.boolean_or("qk_layernorm", false)) {
      decoder.names.query_norm = "q_layernorm";
      decoder.names.key_norm = "k_layernorm";
    }
    decoder.parallel = true;
    decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = decoder.lm_head_bias = true;
    decoder.activation = activation_of(config, "hidden_act", "gelu_new");
    decoder.residual_dropout = rate_or(config, "resid_pdrop", 0.0);
    decoder.embedding_dropout = rate_or(config, "embd_pdrop", 0.0);
    decoder.rotary = {
        rotary_of(config, rotary_dim(config, decoder.head_dim, 0.5), decoder.context_length)};
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

/// Phi 3 and 3.5: Llama with fused projections, an optional window and LongRoPE.
ModelSpec phi3_spec() {
  ModelSpec spec = llama_like_spec("phi3", "Phi3", "phi3", false);
  spec.gguf.layer_tensors = {
      {"attn_norm", "input_layernorm"},    {"attn_qkv", "self_attn.qkv_proj"},
      {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_up", "mlp.gate_up_proj"},      {"ffn_down", "mlp.down_proj"}};
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(with_default(config, "rms_norm_eps", 1e-5));
    decoder.names.qkv = "qkv_proj";
    decoder.names.gate_up = "gate_up_proj";
    decoder.qkv_bias = decoder.output_bias = false;
    decoder.windows = {size_or(config, "sliding_window", 0)};
    decoder.residual_dropout = rate_or(config, "resid_pdrop", 0.0);
    decoder.rotary = {
        rotary_of(config, rotary_dim(config, decoder.head_dim), decoder.context_length)};
    if (!config.mentions("pad_token_id") && decoder.vocab_size > 32000) {
      decoder.padding = 32000;
    }
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
