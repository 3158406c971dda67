#include "base/check.h"
#include "models/bloom.h"
#include "models/registry.h"

namespace heed {
namespace {

/// Rows of queries, keys and values tell the number of key-value heads.
int64_t key_value_heads(int64_t rows, int64_t hidden_size, int64_t heads) {
  return (rows / std::max<int64_t>(hidden_size / heads, 1) - heads) / 2;
}

GgufSpec falcon_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf = gpt_like_gguf(
      "falcon", "transformer.", "h.",
      {{"token_embd", "word_embeddings"}, {"output_norm", "ln_f"}, {"output", "lm_head"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_qkv", "self_attention.query_key_value", GgufLayout::qkv_groups},
       {"attn_output", "self_attention.dense"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"},
       // Two norms in parallel: GGUF's first is that of the feed-forward part.
       {"attn_norm", "ln_mlp"},
       {"attn_norm_2", "ln_attn"}},
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

}  // namespace

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
    decoder.classifier_dropout = rate_or(config, "classifier_dropout", decoder.residual_dropout);
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
