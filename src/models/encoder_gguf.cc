#include "models/encoder.h"

namespace heed {
namespace {

/// Sizes that encoders have in common; no causal mask, and the mean of the rows as the embedding.
GgufSpec encoder_gguf(const std::string& architecture, const std::string& prefix,
                      const std::string& layers) {
  GgufSpec gguf;
  gguf.architecture = architecture;
  gguf.prefix = prefix;
  gguf.layers = layers;
  gguf.keys = {{"embedding_length", "hidden_size"},
               {"block_count", "num_hidden_layers"},
               {"attention.head_count", "num_attention_heads"},
               {"feed_forward_length", "intermediate_size"},
               {"context_length", "max_position_embeddings"}};
  gguf.write_config = [](GgufOutput& file, const Json&, const Model&) {
    file.flag("attention.causal", false);
    file.size("pooling_type", 1);
  };
  return gguf;
}

}  // namespace

GgufSpec bert_gguf() {
  GgufSpec gguf = encoder_gguf("bert", "bert.", "encoder.layer.");
  gguf.kept = "cls.predictions.";
  gguf.keys.push_back(
      {"attention.layer_norm_epsilon", "layer_norm_eps", GgufKey::Kind::number, 1e-12});
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
  gguf.write_config = [plain = gguf.write_config](GgufOutput& file, const Json& config,
                                                  const Model& model) {
    plain(file, config, model);
    // The number of segments: a size of the model that GGUF keeps among the tokenizer's keys.
    file.size("tokenizer.ggml.token_type_count", size_or(config, "type_vocab_size", 2));
  };
  return gguf;
}

GgufSpec roberta_gguf(const std::string& model_type) {
  GgufSpec gguf = bert_gguf();
  gguf.prefix = "roberta.";
  gguf.kept = "lm_head.";
  std::erase_if(gguf.keys, [](const GgufKey& key) { return key.gguf == "context_length"; });
  for (GgufTensor& tensor : gguf.tensors) {
    if (tensor.gguf == "position_embd") {
      tensor.layout = GgufLayout::behind_padding;
    } else if (tensor.gguf == "cls") {
      tensor.checkpoint = "classifier.dense";
    } else if (tensor.gguf == "cls.output") {
      tensor.checkpoint = "classifier.out_proj";
    }
  }
  // Names that GGUF has none for: the pooler, and the classifier of tokens and answers.
  for (const char* name : {"pooler.dense", "classifier", "qa_outputs"}) {
    gguf.tensors.push_back({name, name});
  }
  gguf.matches = [model_type](const GgufMetadata&, const Json& own) {
    return own.string_or("model_type", "") == model_type;
  };
  const auto positions = [](const Json& config) {
    return padding_token(config, 1, size_of(config, "vocab_size")).value_or(0) + 1;
  };
  gguf.read_config = [plain = gguf.read_config, positions](const GgufMetadata& file,
                                                           JsonBuilder& config) {
    plain(file, config);
    const int64_t rows = positions(config.build(file.file()));
    config.set("max_position_embeddings", file.size("context_length", 0) + rows);
  };
  gguf.write_config = [plain = gguf.write_config, positions](GgufOutput& file, const Json& config,
                                                             const Model& model) {
    plain(file, config, model);
    file.size("context_length", size_of(config, "max_position_embeddings") - positions(config));
  };
  return gguf;
}

/// GGUF "modern-bert": windows and rotary bases have keys of their own.
GgufSpec modernbert_gguf() {
  GgufSpec gguf = encoder_gguf("modern-bert", "model.", "layers.");
  gguf.kept = "decoder.";
  gguf.keys.push_back({"attention.layer_norm_epsilon", "norm_eps", GgufKey::Kind::number, 1e-5});
  gguf.keys.push_back({"attention.sliding_window", "local_attention", GgufKey::Kind::size, 128});
  gguf.keys.push_back(
      {"attention.sliding_window_pattern", "global_attn_every_n_layers", GgufKey::Kind::size, 3});
  gguf.tensors = {{"token_embd", "embeddings.tok_embeddings"},
                  {"token_embd_norm", "embeddings.norm"},
                  {"output_norm", "final_norm"},
                  {"cls", "head.dense"},
                  {"cls.norm", "head.norm"},
                  {"cls.output", "classifier"}};
  gguf.layer_tensors = {{"attn_norm", "attn_norm"}, {"attn_qkv", "attn.Wqkv"},
                        {"attn_output", "attn.Wo"}, {"ffn_norm", "mlp_norm"},
                        {"ffn_up", "mlp.Wi"},       {"ffn_down", "mlp.Wo"}};
  gguf.read_config = [](const GgufMetadata& file, JsonBuilder& config) {
    if (!config.has("rope_parameters")) {
      config.set("global_rope_theta", file.number("rope.freq_base", 160000.0));
      config.set("local_rope_theta", file.number("rope.freq_base_swa", 10000.0));
    }
  };
  gguf.write_config = [plain = gguf.write_config](GgufOutput& file, const Json& config,
                                                  const Model& model) {
    plain(file, config, model);
    const Json bases = config.find("rope_parameters").value_or(config);
    const auto base = [&](const char* kind, const char* old, double otherwise) {
      const auto own = bases.find(kind);
      return own ? own->number_or("rope_theta", otherwise, 0.0, 1e12)
                 : config.number_or(old, otherwise, 0.0, 1e12);
    };
    file.number("rope.freq_base", base("full_attention", "global_rope_theta", 160000.0));
    file.number("rope.freq_base_swa", base("sliding_attention", "local_rope_theta", 10000.0));
  };
  return gguf;
}

}  // namespace heed
