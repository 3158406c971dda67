#include "models/decoder.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {
namespace {

/// The base of the rotation under the name that other families have for it.
Json with_rotary_base(const Json& config) {
  JsonBuilder rope(config);
  if (!config.has("rope_theta") && config.has("rotary_emb_base")) {
    rope.set("rope_theta", config.at("rotary_emb_base"));
  }
  return rope.build(config.file());
}

GgufSpec gpt_neox_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf = gpt_like_gguf(
      "gptneox", "gpt_neox.", "layers.",
      {{"token_embd", "embed_in"},
       {"output_norm", "final_layer_norm"},
       {"output", "embed_out"},
       {"output", "lm_head"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_qkv", "attention.query_key_value", GgufLayout::qkv_groups},
       {"attn_output", "attention.dense"},
       {"ffn_norm", "post_attention_layernorm"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"}},
      {{"embedding_length", "hidden_size"},
       {"block_count", "num_hidden_layers"},
       {"attention.head_count", "num_attention_heads"},
       {"feed_forward_length", "intermediate_size"},
       {"context_length", "max_position_embeddings"},
       {"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, 1e-5},
       {"use_parallel_residual", "use_parallel_residual", Kind::flag, GgufKey::kUnset}});
  gguf.read_config = [common = gguf.read_config](const GgufMetadata& file, JsonBuilder& config) {
    common(file, config);
    const Json so_far = config.build();
    const int64_t dim = so_far.integer("hidden_size", 1, 1 << 24) /
                        so_far.integer("num_attention_heads", 1, 1 << 24);
    if (!so_far.has("rope_parameters")) {  // heed's own configuration is more exact
      config.set("rotary_pct", static_cast<double>(file.size("rope.dimension_count", dim)) /
                                   static_cast<double>(std::max<int64_t>(dim, 1)));
      config.set("rotary_emb_base", file.number("rope.freq_base", 10000.0));
    }
    config.set("attention_bias", file.has_tensor("blk.0.attn_qkv.bias"));
  };
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model& model) {
    const int64_t dim = model.hidden_size() / model.num_heads();
    file.size("rope.dimension_count", rotary_dim(config, dim, 0.25));
    file.number("rope.freq_base", rotary_theta(with_rotary_base(config)));
  };
  return gguf;
}

}  // namespace

/// GPT-NeoX (Pythia, Polyglot-Ko): parallel residual, rotation of part of a head, one projection
/// with queries, keys and values per head.
ModelSpec gpt_neox_spec() {
  ModelSpec spec = llama_like_spec("gpt_neox", "GPTNeoX", "", false);
  spec.heads = decoder_heads("GPTNeoX", "gpt_neox.");
  spec.ties = {.prefix = "gpt_neox.",
               .embedding = "embed_in.weight",
               .lm_head = "embed_out.weight",
               .tied_by_default = false};
  spec.gguf = gpt_neox_gguf();
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(with_rotary_base(config), 0.25);
    decoder.num_kv_heads = decoder.num_heads;
    decoder.norm = {.eps = positive_or(config, "layer_norm_eps", 1e-5)};
    DecoderNames& names = decoder.names;
    names.base = "gpt_neox";
    names.embedding = "embed_in";
    names.final_norm = "final_layer_norm";
    names.lm_head = scope.has("lm_head.weight") ? "lm_head" : "embed_out";
    names.attention = "attention";
    names.token_head = "classifier";
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
    decoder.ignored = {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"};
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
