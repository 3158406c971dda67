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

GgufSpec bert_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf;
  gguf.architecture = "bert";
  gguf.prefix = "bert.";
  gguf.layers = "encoder.layer.";
  gguf.kept = "cls.predictions.";
  gguf.keys = {{"embedding_length", "hidden_size"},
               {"block_count", "num_hidden_layers"},
               {"attention.head_count", "num_attention_heads"},
               {"feed_forward_length", "intermediate_size"},
               {"context_length", "max_position_embeddings"},
               {"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, 1e-12}};
  gguf.tensors = {{"token_embd", "embeddings.word_embeddings"},
                  {"position_embd", "embeddings.position_embeddings"},
                  {"token_types", "embeddings.token_type_embeddings"},
                  {"token_embd_norm", "embeddings.LayerNorm"},
                  {"cls", "pooler.dense"},
                  {"cls.output", "classifier"}};
  gguf.layer_tensors = {{"attn_q", "attention.self.query"},
                        {"attn_k", "attention.self.key"},
                        {"attn_v", "attention.self.value"},
                        {"attn_output", "attention.output.dense"},
                        {"attn_output_norm", "attention.output.LayerNorm"},
                        {"ffn_up", "intermediate.dense"},
                        {"ffn_down", "output.dense"},
                        {"layer_output_norm", "output.LayerNorm"}};
  gguf.read_config = [](const GgufMetadata& file, JsonBuilder& config) {
    config.set("type_vocab_size", file.rows("token_types.weight"));
    config.set_default("hidden_act", "gelu");
  };
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model&) {
    file.flag("attention.causal", false);
    file.size("pooling_type", 1);
    // The number of segments: a size of the model that GGUF keeps among the tokenizer's keys.
    file.size("tokenizer.ggml.token_type_count", size_or(config, "type_vocab_size", 2));
  };
  return gguf;
}

}  // namespace

ModelSpec bert_spec() {
  ModelSpec spec = bert_like_spec("bert", "Bert", bert_names(), bert_config);
  spec.gguf = bert_gguf();
  return spec;
}

}  // namespace heed
