#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// OPT: learned positions that start at 2 and count real tokens, ReLU, norms before or after each
/// part, embeddings that may be smaller than the hidden size.
ModelSpec opt_spec() {
  ModelSpec spec;
  spec.model_type = "opt";
  spec.kind = ModelKind::decoder;
  spec.heads = decoder_heads("OPT");
  spec.ties = {
      .prefix = "model.", .embedding = "decoder.embed_tokens.weight", .lm_head = "lm_head.weight"};
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder;
    decoder.hidden_size = size_of(config, "hidden_size");
    decoder.num_layers = layer_count(config, "num_hidden_layers");
    decoder.num_heads = decoder.num_kv_heads = size_of(config, "num_attention_heads");
    decoder.head_dim = head_dim(config, "hidden_size", decoder.hidden_size, "num_attention_heads",
                                decoder.num_heads);
    decoder.context_length = size_or(config, "max_position_embeddings", 2048);
    decoder.vocab_size = size_of(config, "vocab_size");
    decoder.intermediate_size = size_of(config, "ffn_dim");
    decoder.embedding_size = size_or(config, "word_embed_proj_dim", decoder.hidden_size);
    decoder.norm = {.eps = 1e-5,
                    .affine = config.boolean_or("layer_norm_elementwise_affine", true)};
    decoder.pre_norm = config.boolean_or("do_layer_norm_before", true);
    DecoderNames& names = decoder.names;
    names.stack = "decoder";
    names.positions = "embed_positions";
    names.project_in = "project_in";
    names.project_out = "project_out";
    names.final_norm = decoder.pre_norm && !config.boolean_or("_remove_final_layer_norm", false)
                           ? "final_layer_norm"
                           : "";
    names.output = "out_proj";
    names.attention_norm = "self_attn_layer_norm";
    names.mlp.clear();
    names.gate.clear();
    names.up = "fc1";
    names.down = "fc2";
    names.mlp_norm = "final_layer_norm";
    decoder.position_offset = 2;
    decoder.positions_count_real_tokens = true;
    const bool bias = config.boolean_or("enable_bias", true);
    decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = bias;
    decoder.activation = activation_of(config, "activation_function", "relu");
    decoder.tied = config.boolean_or("tie_word_embeddings", true);
    decoder.residual_dropout = rate_or(config, "dropout", 0.1);
    decoder.attention_dropout = rate_or(config, "attention_dropout", 0.0);
    decoder.padding = padding_token(config, 1, decoder.vocab_size);
    decoder.init = Init::normal(positive_or(config, "init_std", 0.02));
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
