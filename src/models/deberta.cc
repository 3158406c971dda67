#include "models/deberta.h"

#include <algorithm>

#include "base/check.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

EncoderNames deberta_names(bool legacy) {
  EncoderNames names;
  names.base = "deberta";
  names.query = "attention.self.query_proj";
  names.key = "attention.self.key_proj";
  names.value = "attention.self.value_proj";
  names.sequence_dense = "pooler.dense";
  if (!legacy) {
    names.lm_dense = "lm_predictions.lm_head.dense";
    names.lm_norm = "lm_predictions.lm_head.LayerNorm";
    names.lm_decoder = "lm_predictions.lm_head.decoder";
    names.lm_bias = "lm_predictions.lm_head.bias";
  }
  return names;
}

/// DeBERTa v2 and v3: scores of content against relative positions in both directions, optionally a
/// convolution behind the first layer.
EncoderConfig deberta_config(const Json& config) {
  const bool legacy = config.boolean_or("legacy", true);
  EncoderConfig c = bert_like_config(config, "DebertaV2", deberta_names(legacy));
  c.token_types = config.integer_or("type_vocab_size", 0, 0, 1 << 24);
  c.norm.eps = positive_or(config, "layer_norm_eps", 1e-7);
  c.embedding_size = size_or(config, "embedding_size", c.hidden_size);
  if (c.embedding_size != c.hidden_size) {
    c.names.early_projection = "embeddings.embed_proj";
    check_data(legacy, config.file(), "embedding_size {} other than hidden_size needs legacy",
               c.embedding_size);
  }
  if (!config.boolean_or("position_biased_input", true)) {
    c.names.positions.clear();
    c.ignored.emplace_back("*embeddings.position_embeddings.weight");
  }
  for (const char* key : {"pooler_hidden_size", "attention_head_size"}) {
    const int64_t usual =
        std::string_view(key) == "pooler_hidden_size" ? c.hidden_size : c.hidden_size / c.num_heads;
    check_data(size_or(config, key, usual) == usual, config.file(), "{} must be {}", key, usual);
  }
  c.mask_embeddings = true;
  c.token_dropout = c.dropout;
  c.sequence_activation = activation_of(config, "pooler_hidden_act", "gelu");
  c.sequence_input_dropout = rate_or(config, "pooler_dropout", 0.0);
  c.classifier_dropout = rate_or(config, "cls_dropout", c.dropout);
  use_disentangled_attention(c, read_deberta_positions(config, c));
  return c;
}

}  // namespace

ModelSpec deberta_v2_spec() {
  ModelSpec spec = bert_like_spec("deberta-v2", "DebertaV2", deberta_names(true), deberta_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("deberta-v2", "DebertaV2", sizes)
        .set("pad_token_id", sizes.pad_token_id)
        .set("type_vocab_size", int64_t{0})
        .set("relative_attention", true)
        .set("position_biased_input", false)
        .set("position_buckets", std::min<int64_t>(256, std::max<int64_t>(sizes.context_length, 2)))
        .set("norm_rel_ebd", "layer_norm")
        .set("share_att_key", true)
        .set("pos_att_type", std::vector<std::string>{"p2c", "c2p"});
  };
  return spec;
}

}  // namespace heed
