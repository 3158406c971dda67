#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/sparse_mixers.h"

namespace heed {
namespace {

/// Longformer: RoBERTa whose tokens see a window around them, and global tokens everything.
EncoderConfig longformer_config(const Json& config) {
  EncoderConfig c = bert_like_config(config, "Longformer", roberta_names("longformer"));
  use_roberta_positions(c, config, padding_token(config, 1, c.vocab_size));
  c.lm_activation = Activation::gelu;
  c.classifier_dropout = c.sequence_input_dropout = c.dropout;
  c.reads_global_mask = true;
  c.separator = config.integer_or("sep_token_id", 2, 0, c.vocab_size - 1);
  const EncoderConfig plain = c;
  c.make_mixer = [plain, windows = attention_windows(config, c.num_layers)](
                     const Scope&, const Scope& scope, int64_t layer, Block::Parts& parts) {
    parts.mixer = longformer_mixer(scope, plain, windows[static_cast<size_t>(layer)]);
  };
  return c;
}

}  // namespace

ModelSpec longformer_spec() {
  ModelSpec spec =
      bert_like_spec("longformer", "Longformer", roberta_names("longformer"), longformer_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("longformer", "Longformer", sizes)
        .set("pad_token_id", sizes.pad_token_id)
        .set("type_vocab_size", int64_t{1})
        .set("attention_window",
             std::max<int64_t>(2, std::min<int64_t>(512, sizes.context_length / 4 / 2 * 2)))
        .set("max_position_embeddings", sizes.context_length + sizes.pad_token_id + 1);
  };
  return spec;
}

}  // namespace heed
