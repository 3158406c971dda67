#include "base/check.h"
#include "models/encoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

constexpr int64_t kPadding = 1;   // whatever pad_token_id says, as in Hugging Face's code
constexpr int64_t kBuckets = 32;  // likewise

EncoderNames mpnet_names() {
  EncoderNames names = roberta_names("mpnet");
  names.token_types.clear();
  names.relative_bias = "encoder.relative_attention_bias";
  names.query = "attention.attn.q";
  names.key = "attention.attn.k";
  names.value = "attention.attn.v";
  names.output = "attention.attn.o";
  names.attention_norm = "attention.LayerNorm";
  return names;
}

/// MPNet: RoBERTa without segments, with T5's buckets of relative positions as a bias on the scores
/// of every layer.
EncoderConfig mpnet_config(const Json& config) {
  EncoderConfig c = bert_like_config(config, "MPNet", mpnet_names());
  use_roberta_positions(c, config, kPadding);
  check_data(c.vocab_size > kPadding, config.file(), "vocab_size is {}; it must be above {}",
             c.vocab_size, kPadding);
  c.relative_buckets = size_or(config, "relative_attention_num_buckets", kBuckets);
  check_data(c.relative_buckets == kBuckets, config.file(),
             "relative_attention_num_buckets is {}; MPNet's positions fall into {}",
             c.relative_buckets, kBuckets);
  c.token_types = 0;
  c.lm_activation = Activation::gelu;
  c.classifier_dropout = c.sequence_input_dropout = c.dropout;
  return c;
}

}  // namespace

ModelSpec mpnet_spec() {
  ModelSpec spec = bert_like_spec("mpnet", "MPNet", mpnet_names(), mpnet_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("mpnet", "MPNet", sizes)
        .set("pad_token_id", kPadding)
        .set("max_position_embeddings", sizes.context_length + kPadding + 1);
  };
  return spec;
}

}  // namespace heed
