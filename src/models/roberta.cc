#include "models/encoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

EncoderConfig roberta_config(const Json& config, const std::string& family) {
  EncoderConfig c = bert_like_config(config, family, roberta_names("roberta"));
  use_roberta_positions(c, config, padding_token(config, 1, c.vocab_size));
  c.lm_activation = Activation::gelu;
  c.sequence_input_dropout = c.classifier_dropout;
  return c;
}

/// RoBERTa: BERT with positions that count from the padding id + 1, and heads of its own.
ModelSpec roberta_like_spec(const std::string& model_type, const std::string& family) {
  ModelSpec spec =
      bert_like_spec(model_type, family, roberta_names("roberta"),
                     [family](const Json& config) { return roberta_config(config, family); });
  spec.fresh_config = [model_type, family](const FreshSizes& sizes) {
    return bert_like_fresh_config(model_type, family, sizes)
        .set("pad_token_id", sizes.pad_token_id)
        .set("type_vocab_size", int64_t{1})
        .set("max_position_embeddings", sizes.context_length + sizes.pad_token_id + 1);
  };
  spec.gguf = roberta_gguf(model_type);
  return spec;
}

}  // namespace

ModelSpec roberta_spec() { return roberta_like_spec("roberta", "Roberta"); }
ModelSpec xlm_roberta_spec() { return roberta_like_spec("xlm-roberta", "XLMRoberta"); }
ModelSpec camembert_spec() { return roberta_like_spec("camembert", "Camembert"); }

}  // namespace heed
