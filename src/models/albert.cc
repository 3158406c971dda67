#include <algorithm>

#include "models/encoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

EncoderNames albert_names() {
  EncoderNames names;
  names.base = "albert";
  names.projection = "encoder.embedding_hidden_mapping_in";
  names.layers = "encoder.albert_layer_groups";
  names.pooler = "pooler";
  names.query = "attention.query";
  names.key = "attention.key";
  names.value = "attention.value";
  names.output = "attention.dense";
  names.attention_norm = "attention.LayerNorm";
  names.up = "ffn";
  names.down = "ffn_output";
  names.mlp_norm = "full_layer_layer_norm";
  names.lm_dense = "predictions.dense";
  names.lm_norm = "predictions.LayerNorm";
  names.lm_decoder = "predictions.decoder";
  names.lm_bias = "predictions.bias";
  return names;
}

/// ALBERT: embeddings narrower than the layers, and layers that share their weights in groups.
EncoderConfig albert_config(const Json& config) {
  EncoderConfig c = bert_like_config(config, "Albert", albert_names());
  c.embedding_size = size_or(config, "embedding_size", 128);
  c.layer_groups = config.integer_or("num_hidden_groups", 1, 1, c.num_layers);
  c.group_layers =
      config.integer_or("inner_group_num", 1, 1, std::max<int64_t>(1, 4096 / c.num_layers));
  c.activation = c.lm_activation = activation_of(config, "hidden_act", "gelu_new");
  // The feed-forward part's result is not dropped out.
  c.embedding_dropout = c.attention_output_dropout = rate_or(config, "hidden_dropout_prob", 0.0);
  c.dropout = 0.0;
  c.attention_dropout = rate_or(config, "attention_probs_dropout_prob", 0.0);
  c.classifier_dropout = rate_or(config, "classifier_dropout_prob", 0.1);
  c.ignored = {"sop_classifier.classifier.weight", "sop_classifier.classifier.bias"};
  return c;
}

}  // namespace

ModelSpec albert_spec() {
  ModelSpec spec = bert_like_spec("albert", "Albert", albert_names(), albert_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("albert", "Albert", sizes)
        .set("embedding_size", std::min<int64_t>(sizes.hidden_size, 128))
        .set("hidden_act", "gelu_new")
        .set("pad_token_id", sizes.pad_token_id);
  };
  return spec;
}

}  // namespace heed
