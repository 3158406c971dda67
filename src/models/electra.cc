#include "models/encoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

EncoderNames electra_names() {
  EncoderNames names;
  names.base = "electra";
  names.lm_dense = "generator_predictions.dense";
  names.lm_norm = "generator_predictions.LayerNorm";
  names.lm_decoder = "generator_lm_head";
  names.lm_bias.clear();
  names.sequence_dense = "classifier.dense";
  names.sequence_out = "classifier.out_proj";
  names.replaced_dense = "discriminator_predictions.dense";
  names.replaced_out = "discriminator_predictions.dense_prediction";
  return names;
}

/// ELECTRA: BERT whose embeddings may be narrower than its layers; a generator that fills masked
/// tokens, and a discriminator that tells replaced ones.
EncoderConfig electra_config(const Json& config) {
  EncoderConfig c = bert_like_config(config, "Electra", electra_names());
  c.embedding_size = size_or(config, "embedding_size", 128);
  if (c.embedding_size != c.hidden_size) {
    c.names.projection = "embeddings_project";
  }
  c.lm_activation = c.sequence_activation = Activation::gelu;
  c.sequence_input_dropout = c.classifier_dropout;
  return c;
}

}  // namespace

ModelSpec electra_spec() {
  ModelSpec spec = bert_like_spec("electra", "Electra", electra_names(), electra_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("electra", "Electra", sizes)
        .set("embedding_size", sizes.hidden_size)
        .set("pad_token_id", sizes.pad_token_id);
  };
  return spec;
}

}  // namespace heed
