#include "models/encoder.h"
#include "models/registry.h"

namespace heed {
namespace {

EncoderNames distilbert_names() {
  EncoderNames names;
  names.base = "distilbert";
  names.token_types.clear();
  names.layers = "transformer.layer";
  names.query = "attention.q_lin";
  names.key = "attention.k_lin";
  names.value = "attention.v_lin";
  names.output = "attention.out_lin";
  names.attention_norm = "sa_layer_norm";
  names.up = "ffn.lin1";
  names.down = "ffn.lin2";
  names.mlp_norm = "output_layer_norm";
  names.lm_dense = "vocab_transform";
  names.lm_norm = "vocab_layer_norm";
  names.lm_decoder = "vocab_projector";
  names.lm_bias.clear();
  names.sequence_dense = "pre_classifier";
  return names;
}

/// DistilBERT: BERT's blocks without segments and without a pooler.
EncoderConfig distilbert_config(const Json& config) {
  EncoderConfig c;
  c.family = "DistilBert";
  c.names = distilbert_names();
  c.hidden_size = size_of(config, "dim");
  c.num_layers = layer_count(config, "n_layers");
  c.num_heads = size_of(config, "n_heads");
  head_dim(config, "dim", c.hidden_size, "n_heads", c.num_heads);
  c.intermediate_size = size_of(config, "hidden_dim");
  c.context_length = size_of(config, "max_position_embeddings");
  c.vocab_size = size_of(config, "vocab_size");
  c.padding = padding_token(config, 0, c.vocab_size);
  c.tied = config.boolean_or("tie_word_embeddings", true);
  c.init = Init::normal(positive_or(config, "initializer_range", 0.02));
  c.dropout = rate_or(config, "dropout", 0.1);
  c.attention_dropout = rate_or(config, "attention_dropout", 0.1);
  c.attention_output_dropout = 0.0;
  c.token_dropout = c.dropout;
  c.classifier_dropout = rate_or(config, "seq_classif_dropout", 0.2);
  c.question_dropout = rate_or(config, "qa_dropout", 0.1);
  c.activation = c.lm_activation = activation_of(config, "activation", "gelu");
  c.sequence_activation = Activation::relu;
  return c;
}

}  // namespace

ModelSpec distilbert_spec() {
  ModelSpec spec =
      bert_like_spec("distilbert", "DistilBert", distilbert_names(), distilbert_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    const bool classify = sizes.task == "classify";
    return JsonBuilder()
        .set("model_type", "distilbert")
        .set("architectures",
             std::vector<std::string>{classify ? "DistilBertForSequenceClassification"
                                               : "DistilBertForMaskedLM"})
        .set("vocab_size", sizes.vocab_size)
        .set("dim", sizes.hidden_size)
        .set("n_layers", sizes.num_layers)
        .set("n_heads", sizes.num_heads)
        .set("hidden_dim", sizes.intermediate_size)
        .set("max_position_embeddings", sizes.context_length)
        .set("dropout", sizes.dropout)
        .set("attention_dropout", sizes.dropout);
  };
  return spec;
}

}  // namespace heed
