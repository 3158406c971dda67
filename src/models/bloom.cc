#include "models/bloom.h"

#include "base/check.h"
#include "models/registry.h"

namespace heed {

void use_bloom_names(DecoderNames& names) {
  names.base = "transformer";
  names.embedding = "word_embeddings";
  names.layers = "h";
  names.final_norm = "ln_f";
  names.attention = "self_attention";
  names.qkv = "query_key_value";
  names.token_head = "classifier";
  names.output = "dense";
  names.gate.clear();
  names.up = "dense_h_to_4h";
  names.down = "dense_4h_to_h";
}

ModelSpec bloom_like_spec(const std::string& type, const std::string& family) {
  ModelSpec spec;
  spec.model_type = type;
  spec.kind = ModelKind::decoder;
  spec.heads = decoder_heads(family, "transformer.");
  spec.ties = {
      .prefix = "transformer.", .embedding = "word_embeddings.weight", .lm_head = "lm_head.weight"};
  return spec;
}

namespace {

GgufSpec bloom_gguf() {
  GgufSpec gguf = gpt_like_gguf(
      "bloom", "transformer.", "h.",
      {{"token_embd", "word_embeddings"},
       {"token_embd_norm", "word_embeddings_layernorm"},
       {"output_norm", "ln_f"},
       {"output", "lm_head"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_qkv", "self_attention.query_key_value", GgufLayout::qkv_groups},
       {"attn_output", "self_attention.dense"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"},
       {"ffn_norm", "post_attention_layernorm"}},
      {{"embedding_length", "hidden_size"},
       {"block_count", "n_layer"},
       {"attention.head_count", "n_head"},
       {"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKey::Kind::number, 1e-5}});
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model& model) {
    file.size("context_length", size_or(config, "seq_length", 2048));
    file.size("feed_forward_length", 4 * model.hidden_size());
    file.size("attention.head_count_kv", model.num_heads());
  };
  return gguf;
}

}  // namespace

/// BLOOM: ALiBi instead of positions, a LayerNorm behind the embedding, queries, keys and values of
/// each head in one projection.
ModelSpec bloom_spec() {
  ModelSpec spec = bloom_like_spec("bloom", "Bloom");
  spec.gguf = bloom_gguf();
  spec.make = [](const Json& config, const Scope& scope) {
    check_data(!config.boolean_or("apply_residual_connection_post_layernorm", false), config.file(),
               "apply_residual_connection_post_layernorm is not supported");
    DecoderConfig decoder;
    decoder.hidden_size =
        config.has("hidden_size") ? size_of(config, "hidden_size") : size_of(config, "n_embed");
    decoder.num_layers =
        layer_count(config, config.has("n_layer") ? "n_layer" : "num_hidden_layers");
    decoder.num_heads = decoder.num_kv_heads =
        size_of(config, config.has("n_head") ? "n_head" : "num_attention_heads");
    decoder.head_dim =
        head_dim(config, "hidden_size", decoder.hidden_size, "n_head", decoder.num_heads);
    decoder.vocab_size = size_of(config, "vocab_size");
    decoder.intermediate_size = 4 * decoder.hidden_size;
    decoder.context_length = kNoLimit;
    decoder.norm = {.eps = positive_or(config, "layer_norm_epsilon", 1e-5)};
    use_bloom_names(decoder.names);
    decoder.names.embedding_norm = "word_embeddings_layernorm";
    decoder.qkv_layout = QkvLayout::per_group;
    decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = true;
    decoder.alibi = true;
    decoder.activation = Activation::gelu_tanh;
    decoder.tied = config.boolean_or("tie_word_embeddings", true);
    decoder.residual_dropout = rate_or(config, "hidden_dropout", 0.0);
    decoder.attention_dropout = rate_or(config, "attention_dropout", 0.0);
    decoder.classifier_dropout = rate_or(config, "classifier_dropout", decoder.residual_dropout);
    decoder.padding = padding_token(config, std::nullopt, decoder.vocab_size);
    decoder.embedding_padding = false;
    decoder.init = Init::normal(positive_or(config, "initializer_range", 0.02));
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
