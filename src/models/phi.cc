#include "base/check.h"
#include "models/decoder.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {
namespace {

GgufSpec phi_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf = gpt_like_gguf(
      "phi2", "model.", "layers.",
      {{"token_embd", "embed_tokens"}, {"output_norm", "final_layernorm"}, {"output", "lm_head"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_q", "self_attn.q_proj"},
       {"attn_k", "self_attn.k_proj"},
       {"attn_v", "self_attn.v_proj"},
       {"attn_output", "self_attn.dense"},
       {"ffn_up", "mlp.fc1"},
       {"ffn_down", "mlp.fc2"}},
      {{"embedding_length", "hidden_size"},
       {"block_count", "num_hidden_layers"},
       {"attention.head_count", "num_attention_heads"},
       {"attention.head_count_kv", "num_key_value_heads", Kind::size, GgufKey::kUnset},
       {"feed_forward_length", "intermediate_size"},
       {"context_length", "max_position_embeddings"},
       {"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, 1e-5}});
  gguf.read_config = [common = gguf.read_config](const GgufMetadata& file, JsonBuilder& config) {
    common(file, config);
    const Json so_far = config.build();
    const int64_t dim = so_far.integer("hidden_size", 1, 1 << 24) /
                        so_far.integer("num_attention_heads", 1, 1 << 24);
    if (!so_far.has("rope_parameters")) {  // heed's own configuration is more exact
      config.set("partial_rotary_factor",
                 static_cast<double>(file.size("rope.dimension_count", dim)) /
                     static_cast<double>(std::max<int64_t>(dim, 1)));
      config.set("rope_theta", file.number("rope.freq_base", 10000.0));
    }
  };
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model& model) {
    const int64_t dim = model.hidden_size() / model.num_heads();
    file.size("rope.dimension_count", rotary_dim(config, dim, 0.5));
    file.number("rope.freq_base", rotary_theta(config));
    if (!config.has("num_key_value_heads")) {
      file.size("attention.head_count_kv", model.num_heads());
    }
  };
  gguf.check_writable = [](const Json& config) {
    check(!config.boolean_or("qk_layernorm", false), "gguf",
          "has no place for Phi's norms of queries and keys (qk_layernorm)");
  };
  return gguf;
}

}  // namespace

/// Phi 1 and 2: attention and feed-forward in parallel behind one LayerNorm, rotation of part of a
/// head, biases everywhere.
ModelSpec phi_spec() {
  ModelSpec spec = llama_like_spec("phi", "Phi", "", false);
  spec.gguf = phi_gguf();
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(config, 0.5);
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
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
