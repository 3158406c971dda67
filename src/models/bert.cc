#include "models/encoder.h"
#include "models/registry.h"

namespace heed {
namespace {

EncoderNames bert_names() {
  EncoderNames names;
  names.pooler = "pooler.dense";
  return names;
}

/// BERT: token, position and segment embeddings, post-LN blocks without a causal mask; a pooler, or
/// a head over tokens or sequences.
EncoderConfig bert_config(const Json& config) {
  EncoderConfig c = bert_like_config(config, "Bert", bert_names());
  c.ignored = {"cls.seq_relationship.weight", "cls.seq_relationship.bias"};
  return c;
}

}  // namespace

ModelSpec bert_spec() {
  ModelSpec spec = bert_like_spec("bert", "Bert", bert_names(), bert_config);
  spec.gguf = bert_gguf();
  return spec;
}

}  // namespace heed
