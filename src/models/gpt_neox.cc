#include "models/decoder.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {

/// GPT-NeoX (Pythia, Polyglot-Ko): parallel residual, rotation of part of a head, one projection
/// with queries, keys and values per head.
ModelSpec gpt_neox_spec() {
  ModelSpec spec = llama_like_spec("gpt_neox", "GPTNeoX", "", false);
  spec.heads = decoder_heads("GPTNeoX", "gpt_neox.");
  spec.ties = {.prefix = "gpt_neox.",
               .embedding = "embed_in.weight",
               .lm_head = "embed_out.weight",
               .tied_by_default = false};
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(config);
    decoder.num_kv_heads = decoder.num_heads;
    decoder.norm = {.eps = positive_or(config, "layer_norm_eps", 1e-5)};
    DecoderNames& names = decoder.names;
    names.base = "gpt_neox";
    names.embedding = "embed_in";
    names.final_norm = "final_layer_norm";
    names.lm_head = scope.has("lm_head.weight") ? "lm_head" : "embed_out";
    names.attention = "attention";
    names.qkv = "query_key_value";
    names.output = "dense";
    names.gate.clear();
    names.up = "dense_h_to_4h";
    names.down = "dense_4h_to_h";
    decoder.qkv_layout = QkvLayout::per_group;
    decoder.qkv_bias = decoder.output_bias = config.boolean_or("attention_bias", true);
    decoder.mlp_bias = true;
    decoder.parallel = config.boolean_or("use_parallel_residual", true);
    decoder.activation = activation_of(config, "hidden_act", "gelu");
    decoder.residual_dropout = decoder.embedding_dropout = rate_or(config, "hidden_dropout", 0.0);
    JsonBuilder rope(config);
    if (!config.has("rope_theta") && config.has("rotary_emb_base")) {
      rope.set("rope_theta", config.at("rotary_emb_base"));
    }
    decoder.rotary = {rotary_of(rope.build(config.file()),
                                rotary_dim(config, decoder.head_dim, 0.25),
                                decoder.context_length)};
    decoder.ignored = {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"};
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
