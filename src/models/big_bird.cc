#include <cmath>

#include "base/check.h"
#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/sparse_mixers.h"

namespace heed {
namespace {

EncoderNames big_bird_names() {
  EncoderNames names;
  names.pooler = "pooler";
  names.sequence_dense = "classifier.dense";
  names.sequence_out = "classifier.out_proj";
  names.question_mlp = "qa_classifier";
  names.question_out = "qa_classifier.qa_outputs";
  return names;
}

/// BigBird: BERT whose blocks of tokens see their neighbours, the first and last block and random
/// ones.
EncoderConfig big_bird_config(const Json& config) {
  EncoderConfig c = bert_like_config(config, "BigBird", big_bird_names());
  c.activation = c.lm_activation = c.sequence_activation =
      activation_of(config, "hidden_act", "gelu_new");
  c.sequence_input_dropout = c.classifier_dropout;
  c.dropout_before_norm = true;
  c.keeps_pooler = true;
  c.separator = config.integer_or("sep_token_id", 66, 0, int64_t{1} << 31);
  c.hides_question = true;
  c.ignored = {"cls.seq_relationship.weight", "cls.seq_relationship.bias"};
  if (config.boolean_or("rescale_embeddings", false)) {
    c.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
  }
  const std::string type = config.string_or("attention_type", "block_sparse");
  check_data(type == "block_sparse" || type == "original_full", config.file(),
             "attention_type '{}' is not supported; use block_sparse or original_full", type);
  const int64_t block = size_or(config, "block_size", 64);
  const int64_t random =
      type == "original_full" ? (1 << 20) : config.integer_or("num_random_blocks", 3, 0, 4096);
  EncoderConfig plain = c;
  plain.attention_bias = config.boolean_or("use_bias", true);
  c.make_mixer = [plain, block, random](const Scope&, const Scope& scope, int64_t layer,
                                        Block::Parts& parts) {
    parts.mixer = bigbird_mixer(scope, plain, block, random, layer);
  };
  return c;
}

}  // namespace

ModelSpec big_bird_spec() {
  ModelSpec spec = bert_like_spec("big_bird", "BigBird", big_bird_names(), big_bird_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("big_bird", "BigBird", sizes)
        .set("pad_token_id", sizes.pad_token_id)
        .set("block_size", std::max<int64_t>(1, std::min<int64_t>(64, sizes.context_length / 16)));
  };
  return spec;
}

}  // namespace heed
