#include "base/check.h"
#include "models/encoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {
namespace {

EncoderNames modernbert_names() {
  EncoderNames names;
  names.base = "model";
  names.words = "embeddings.tok_embeddings";
  names.positions = names.token_types = names.lm_bias = "";
  names.embedding_norm = "embeddings.norm";
  names.layers = "layers";
  names.final_norm = "final_norm";
  names.qkv = "attn.Wqkv";
  names.output = "attn.Wo";
  names.attention_norm = "attn_norm";
  names.gate_up = "mlp.Wi";
  names.down = "mlp.Wo";
  names.mlp_norm = "mlp_norm";
  names.lm_dense = "head.dense";
  names.lm_norm = "head.norm";
  names.lm_decoder = "decoder";
  names.sequence_dense = "head.dense";
  names.sequence_norm = "head.norm";
  names.question_out = "classifier";
  return names;
}

/// Windows and rotary bases: every third layer (or as layer_types says) attends to all positions.
void read_layers(EncoderConfig& c, const Json& config) {
  const int64_t every = config.integer_or("global_attn_every_n_layers", 3, 1, 4096);
  const int64_t window = config.integer_or("local_attention", 128, 2, int64_t{1} << 24) / 2;
  std::vector<std::string> types;
  if (const auto named = config.find("layer_types")) {
    types = named->strings();
    check_data(static_cast<int64_t>(types.size()) == c.num_layers, config.file(),
               "layer_types names {} layers; there are {}", types.size(), c.num_layers);
  } else {
    for (int64_t i = 0; i < c.num_layers; ++i) {
      types.emplace_back(i % every == 0 ? "full_attention" : "sliding_attention");
    }
  }
  // Before transformers 5 the bases stood at the top.
  JsonBuilder bases(config);
  if (!config.has("rope_parameters")) {
    bases.set("rope_theta", positive_or(config, "global_rope_theta", 160000.0));
    bases.set("rope_local_base_freq", positive_or(config, "local_rope_theta", 10000.0));
  }
  const Json settings = bases.build(config.file());
  const int64_t dim = c.hidden_size / c.num_heads;
  for (const std::string& type : types) {
    check_data(type == "sliding_attention" || type == "full_attention", config.file(),
               "layer_types '{}' is not supported; use full_attention or sliding_attention", type);
    c.rotary.push_back(rotary_of(settings, dim, c.context_length, {.layer_type = type}));
    c.windows.push_back(type == "sliding_attention" ? window : 0);
  }
}

/// ModernBERT: pre-norm blocks with rotary positions, gated feed-forward, and windows in most
/// layers.
EncoderConfig modernbert_config(const Json& config) {
  EncoderConfig c;
  c.family = "ModernBert";
  c.names = modernbert_names();
  c.vocab_size = size_of(config, "vocab_size");
  c.hidden_size = size_of(config, "hidden_size");
  c.num_layers = layer_count(config, "num_hidden_layers");
  c.num_heads = size_of(config, "num_attention_heads");
  head_dim(config, "hidden_size", c.hidden_size, "num_attention_heads", c.num_heads);
  c.intermediate_size = size_of(config, "intermediate_size");
  c.context_length = size_or(config, "max_position_embeddings", 8192);
  c.norm = {.eps = positive_or(config, "norm_eps", 1e-5),
            .bias = config.boolean_or("norm_bias", false)};
  c.pre_norm = true;
  c.first_norm = false;
  c.attention_bias = config.boolean_or("attention_bias", false);
  c.mlp_bias = config.boolean_or("mlp_bias", false);
  c.classifier_bias = config.boolean_or("classifier_bias", false);
  c.lm_head_bias = config.boolean_or("decoder_bias", true);
  c.tied = config.boolean_or("tie_word_embeddings", true);
  c.activation = activation_of(config, "hidden_activation", "gelu");
  c.lm_activation = c.sequence_activation = activation_of(config, "classifier_activation", "gelu");
  c.padding = padding_token(config, std::nullopt, c.vocab_size);
  c.init = Init::normal(positive_or(config, "initializer_range", 0.02));
  c.attention_dropout = rate_or(config, "attention_dropout", 0.0);
  c.attention_output_dropout = c.attention_dropout;
  c.embedding_dropout = rate_or(config, "embedding_dropout", 0.0);
  c.mlp_dropout = rate_or(config, "mlp_dropout", 0.0);
  c.classifier_dropout = c.question_dropout = rate_or(config, "classifier_dropout", 0.0);
  c.tokens_through_dense = true;
  const std::string pooling = config.string_or("classifier_pooling", "cls");
  check_data(pooling == "cls" || pooling == "mean", config.file(),
             "classifier_pooling '{}' is not supported; use cls or mean", pooling);
  c.mean_pooling = pooling == "mean";
  read_layers(c, config);
  return c;
}

}  // namespace

ModelSpec modernbert_spec() {
  ModelSpec spec =
      bert_like_spec("modernbert", "ModernBert", modernbert_names(), modernbert_config);
  spec.gguf = modernbert_gguf();
  spec.fresh_tokenizer = "bpe:8192";
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("modernbert", "ModernBert", sizes)
        .set("pad_token_id", sizes.pad_token_id)
        .set("attention_dropout", sizes.dropout)
        .set("embedding_dropout", sizes.dropout)
        .set("mlp_dropout", sizes.dropout);
  };
  return spec;
}

}  // namespace heed
