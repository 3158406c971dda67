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

std::vector<GgufTensor> gguf_layers(bool second_norm) {
  std::vector<GgufTensor> tensors = {
      {"attn_norm", "input_layernorm"},
      {"attn_qkv", "self_attention.query_key_value", GgufLayout::qkv_groups},
      {"attn_output", "self_attention.dense"},
      {"ffn_up", "mlp.dense_h_to_4h"},
      {"ffn_down", "mlp.dense_4h_to_h"}};
  if (second_norm) {
    tensors.push_back({"ffn_norm", "post_attention_layernorm"});
  } else {  // Falcon's two norms in parallel: GGUF's first is that of the feed-forward part
    tensors.push_back({"attn_norm", "ln_mlp"});
    tensors.push_back({"attn_norm_2", "ln_attn"});
  }
  return tensors;
}

GgufSpec bloom_gguf() {
  GgufSpec gguf = gpt_like_gguf(
      "bloom", "transformer.", "h.",
      {{"token_embd", "word_embeddings"},
       {"token_embd_norm", "word_embeddings_layernorm"},
       {"output_norm", "ln_f"},
       {"output", "lm_head"}},
      gguf_layers(true),
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

/// Rows of queries, keys and values tell the number of key-value heads.
int64_t key_value_heads(int64_t rows, int64_t hidden_size, int64_t heads) {
  return (rows / std::max<int64_t>(hidden_size / heads, 1) - heads) / 2;
}

GgufSpec falcon_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf = gpt_like_gguf(
      "falcon", "transformer.", "h.",
      {{"token_embd", "word_embeddings"}, {"output_norm", "ln_f"}, {"output", "lm_head"}},
      gguf_layers(false),
      {{"embedding_length", "hidden_size"},
       {"block_count", "num_hidden_layers"},
       {"attention.head_count", "num_attention_heads"},
       {"context_length", "max_position_embeddings", Kind::size, 2048},
       {"feed_forward_length", "ffn_hidden_size", Kind::size, GgufKey::kUnset},
       {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, 1e-5}});
  gguf.read_config = [common = gguf.read_config](const GgufMetadata& file, JsonBuilder& config) {
    common(file, config);
    const Json so_far = config.build();
    const int64_t heads = so_far.integer("num_attention_heads", 1, 1 << 24);
    const int64_t groups = key_value_heads(file.rows("blk.0.attn_qkv.weight"),
                                           so_far.integer("hidden_size", 1, 1 << 24), heads);
    const bool two_norms = file.has_tensor("blk.0.attn_norm_2.weight");
    const bool grouped = two_norms || (groups > 1 && groups < heads);
    config.set("new_decoder_architecture", grouped);
    config.set("multi_query", groups == 1);
    config.set("num_kv_heads", groups);
    config.set("num_ln_in_parallel_attn", int64_t{two_norms ? 2 : 1});
    config.set("parallel_attn", true);
    config.set("bias", file.has_tensor("blk.0.attn_qkv.bias"));
    config.set_default("rope_theta", file.number("rope.freq_base", 10000.0));
  };
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model& model) {
    for (const Parameter& parameter : model.parameters()) {
      if (parameter.name.ends_with("h.0.self_attention.query_key_value.weight")) {
        file.size(
            "attention.head_count_kv",
            key_value_heads(parameter.tensor.size(0), model.hidden_size(), model.num_heads()));
      }
    }
    file.string("tensor_data_layout", "jploski");
    if (!config.has("ffn_hidden_size")) {
      file.size("feed_forward_length", 4 * model.hidden_size());
    }
  };
  gguf.check_writable = [](const Json& config) {
    check(!config.boolean_or("alibi", false), "gguf", "has no place for Falcon with ALiBi");
    check(config.boolean_or("new_decoder_architecture", false) ||
              config.boolean_or("parallel_attn", true),
          "gguf", "has no place for Falcon without parallel_attn");
  };
  return gguf;
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
  spec.gguf = falcon_gguf();
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
      for (const char* ending : {".weight", ".bias"}) {  // GGUF has one name for both first norms
        scope.allow_ending(std::string("ln_mlp") + ending, std::string("input_layernorm") + ending);
      }
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
