#include "models/fresh_config.h"

namespace heed {

JsonBuilder bert_like_fresh_config(const std::string& model_type, const std::string& family,
                                   const FreshSizes& sizes) {
  const char* head = sizes.task == "classify" ? "ForSequenceClassification"
                     : sizes.task == "embed"  ? "Model"
                                              : "ForMaskedLM";
  return JsonBuilder()
      .set("model_type", model_type)
      .set("architectures", std::vector<std::string>{family + head})
      .set("vocab_size", sizes.vocab_size)
      .set("hidden_size", sizes.hidden_size)
      .set("num_hidden_layers", sizes.num_layers)
      .set("num_attention_heads", sizes.num_heads)
      .set("intermediate_size", sizes.intermediate_size)
      .set("max_position_embeddings", sizes.context_length)
      .set("hidden_dropout_prob", sizes.dropout)
      .set("attention_probs_dropout_prob", sizes.dropout);
}

JsonBuilder stack_fresh_config(const std::string& model_type, const FreshSizes& sizes) {
  JsonBuilder config;
  config.set("model_type", model_type)
      .set("vocab_size", sizes.vocab_size)
      .set("d_model", sizes.hidden_size)
      .set("max_position_embeddings", sizes.context_length);
  for (const std::string side : {"encoder", "decoder"}) {
    config.set(side + "_layers", sizes.num_layers)
        .set(side + "_attention_heads", sizes.num_heads)
        .set(side + "_ffn_dim", sizes.intermediate_size);
  }
  return config.set("dropout", sizes.dropout).set("scale_embedding", true);
}

}  // namespace heed
