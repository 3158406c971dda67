#include "base/check.h"
#include "models/decoder.h"
#include "models/registry.h"

namespace heed {
namespace {

/// ALiBi has no limit of its own: the longest sequence that a cache is made for.
constexpr int64_t kNoLimit = int64_t{1} << 17;

void use_bloom_names(DecoderNames& names) {
  names.base = "transformer";
  names.embedding = "word_embeddings";
  names.layers = "h";
  names.final_norm = "ln_f";
  names.attention = "self_attention";
  names.qkv = "query_key_value";
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

}  // namespace

/// BLOOM: ALiBi instead of positions, a LayerNorm behind the embedding, queries, keys and values of
/// each head in one projection.
ModelSpec bloom_spec() {
  ModelSpec spec = bloom_like_spec("bloom", "Bloom");
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
    decoder.padding = padding_token(config, std::nullopt, decoder.vocab_size);
    decoder.embedding_padding = false;
    decoder.init = Init::normal(positive_or(config, "initializer_range", 0.02));
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

/// Falcon: one or several key-value heads, parallel parts behind one or two LayerNorms, rotary
/// positions or ALiBi.
ModelSpec falcon_spec() {
  ModelSpec spec = bloom_like_spec("falcon", "Falcon");
  spec.make = [](const Json& config, const Scope& scope) {
    const Json sizes =
        with_default(config, "intermediate_size",
                     size_or(config, "ffn_hidden_size", 4 * size_of(config, "hidden_size")));
    DecoderConfig decoder = llama_like_config(sizes);
    const bool grouped = config.boolean_or("new_decoder_architecture", false);
    const bool one = config.boolean_or("multi_query", true);
    decoder.num_kv_heads = grouped ? size_or(config, "num_kv_heads", decoder.num_heads)
                           : one   ? 1
                                   : decoder.num_heads;
    decoder.norm = {.eps = positive_or(config, "layer_norm_epsilon", 1e-5)};
    use_bloom_names(decoder.names);
    decoder.qkv_layout = QkvLayout::per_group;
    decoder.parallel = grouped || config.boolean_or("parallel_attn", true);
    const int64_t norms = config.integer_or("num_ln_in_parallel_attn", grouped ? 2 : 1, 1, 2);
    if (grouped && norms == 2) {
      decoder.names.attention_norm = "ln_attn";
      decoder.names.mlp_norm = "ln_mlp";
    } else if (decoder.parallel) {
      decoder.names.mlp_norm.clear();
    }
    decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = config.boolean_or("bias", false);
    decoder.activation = activation_of(config, "activation", "gelu");
    decoder.tied = config.boolean_or("tie_word_embeddings", true);
    decoder.residual_dropout = rate_or(config, "hidden_dropout", 0.0);
    decoder.embedding_padding = false;
    if (config.boolean_or("alibi", false)) {
      decoder.alibi = true;
      decoder.scale_alibi = true;
      decoder.rotary.clear();
      decoder.context_length = kNoLimit;
    }
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
