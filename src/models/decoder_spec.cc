#include <cmath>

#include "base/check.h"
#include "models/decoder.h"
#include "models/rope.h"
#include "models/rope_gguf.h"

namespace heed {

DecoderConfig llama_like_config(const Json& config, std::optional<double> rotated) {
  DecoderConfig c;
  c.hidden_size = size_of(config, "hidden_size");
  c.num_layers = layer_count(config, "num_hidden_layers");
  c.num_heads = size_of(config, "num_attention_heads");
  c.num_kv_heads = size_or(config, "num_key_value_heads", c.num_heads);
  c.head_dim = config.has("head_dim") ? size_of(config, "head_dim")
                                      : head_dim(config, "hidden_size", c.hidden_size,
                                                 "num_attention_heads", c.num_heads);
  c.context_length = rotary_context(config, size_or(config, "max_position_embeddings", 2048));
  c.vocab_size = size_of(config, "vocab_size");
  c.intermediate_size = size_of(config, "intermediate_size");
  c.tied = config.boolean_or("tie_word_embeddings", false);
  c.norm.eps = positive_or(config, "rms_norm_eps", 1e-6);
  c.norm.kind = Norm::Kind::rms;
  c.qkv_bias = c.output_bias = config.boolean_or("attention_bias", false);
  c.mlp_bias = config.boolean_or("mlp_bias", false);
  c.activation = activation_of(config, "hidden_act", "silu");
  c.attention_dropout = rate_or(config, "attention_dropout", 0.0);
  c.classifier_dropout = rate_or(config, "classifier_dropout", 0.1);
  c.padding = padding_token(config, std::nullopt, c.vocab_size);
  c.init = Init::normal(positive_or(config, "initializer_range", 0.02));
  c.rotary = {rotary_of(config, rotated ? rotary_dim(config, c.head_dim, *rotated) : c.head_dim,
                        c.context_length)};
  c.ignored = {"*.rotary_emb.inv_freq"};
  return c;
}

void check_bidirectional(const Json& config) {
  check_data(!config.boolean_or("use_bidirectional_attention", false), config.file(),
             "use_bidirectional_attention is not supported; heed runs this family as a decoder");
}

void use_post_norms(DecoderConfig& decoder) {
  decoder.names.attention_norm.clear();
  decoder.names.mlp_norm.clear();
  decoder.names.attention_post_norm = "post_attention_layernorm";
  decoder.names.mlp_post_norm = "post_feedforward_layernorm";
}

void use_post_norms(GgufSpec& gguf) {
  std::erase_if(gguf.layer_tensors, [](const GgufTensor& tensor) {
    return tensor.gguf == "attn_norm" || tensor.gguf == "ffn_norm";
  });
  gguf.layer_tensors.push_back({"post_attention_norm", "post_attention_layernorm"});
  gguf.layer_tensors.push_back({"post_ffw_norm", "post_feedforward_layernorm"});
}

void use_norm_eps(GgufSpec& gguf, double eps) {
  for (GgufKey& key : gguf.keys) {
    key.otherwise = key.config == "rms_norm_eps" ? eps : key.otherwise;
  }
}

void add_query_key_norms(GgufSpec& gguf, GgufLayout layout) {
  gguf.layer_tensors.push_back({"attn_q_norm", "self_attn.q_norm", layout});
  gguf.layer_tensors.push_back({"attn_k_norm", "self_attn.k_norm", layout});
}

std::vector<int64_t> windows_by_layer(const Json& config, int64_t layers, int64_t window,
                                      const std::function<bool(int64_t)>& windowed) {
  std::vector<std::string> types;
  if (const auto named = config.find("layer_types")) {
    types = named->strings();
    check_data(static_cast<int64_t>(types.size()) == layers, config.file(),
               "layer_types names {} layers; there are {}", types.size(), layers);
  }
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < layers; ++i) {
    if (!types.empty()) {
      const std::string& type = types[static_cast<size_t>(i)];
      check_data(type == "sliding_attention" || type == "full_attention", config.file(),
                 "layer_types '{}' is not supported; use full_attention or sliding_attention",
                 type);
    }
    const bool narrow =
        types.empty() ? windowed(i) : types[static_cast<size_t>(i)] == "sliding_attention";
    windows.push_back(narrow ? window : 0);
  }
  return windows;
}

std::vector<ModelHead> decoder_heads(const std::string& family, const std::string& base) {
  return {{family + "ForTokenClassification", "token-classification", "score.bias"},
          {family + "ForTokenClassification", "token-classification", "classifier."},
          {family + "ForSequenceClassification", "text-classification", "score."},
          {family + "ForCausalLM", "text-generation", base},
          {family + "Model", "", ""}};
}

namespace {

void read_llama_like(const GgufMetadata& file, JsonBuilder& config) {
  const double theta = file.number("rope.freq_base", 10000.0);
  const Json so_far = config.build();
  const auto parameters = so_far.find("rope_parameters");
  if (parameters && parameters->is_object()) {
    config.set("rope_parameters", JsonBuilder(*parameters).set("rope_theta", theta));
  } else {
    config.set("rope_theta", theta);
  }
  read_gguf_rope(file, config);
  const int64_t heads = so_far.integer("num_attention_heads", 1, 1 << 24);
  const int64_t plain = so_far.integer("hidden_size", 1, 1 << 24) / heads;
  config.set("head_dim",
             file.size("attention.key_length", file.size("rope.dimension_count", plain)));
  config.set("tie_word_embeddings", !file.has_tensor("output.weight"));
  config.set("attention_bias", file.has_tensor("blk.0.attn_q.bias"));
  config.set_default("hidden_act", "silu");
}

}  // namespace

void write_llama_like(GgufOutput& file, const Json& config, const Model& model, double rotated) {
  const int64_t dim = size_or(config, "head_dim", model.hidden_size() / model.num_heads());
  file.size("vocab_size", model.vocab_size());
  file.size("attention.key_length", dim);
  file.size("attention.value_length", dim);
  write_gguf_rope(file, config, static_cast<int64_t>(rotated * static_cast<double>(dim)));
}

GgufSpec llama_like_gguf(const std::string& architecture, bool pairs) {
  GgufSpec gguf;
  gguf.architecture = architecture;
  gguf.prefix = "model.";
  gguf.layers = "layers.";
  using Kind = GgufKey::Kind;
  gguf.keys = {{"embedding_length", "hidden_size"},
               {"block_count", "num_hidden_layers"},
               {"attention.head_count", "num_attention_heads"},
               {"attention.head_count_kv", "num_key_value_heads", Kind::size, GgufKey::kUnset},
               {"feed_forward_length", "intermediate_size"},
               {"context_length", "max_position_embeddings"},
               {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, 1e-6}};
  gguf.tensors = {{"token_embd", "embed_tokens"}, {"output_norm", "norm"}, {"output", "lm_head"}};
  gguf.layer_tensors = {
      {"attn_norm", "input_layernorm"},
      {"attn_q", "self_attn.q_proj", pairs ? GgufLayout::query_pairs : GgufLayout::same},
      {"attn_k", "self_attn.k_proj", pairs ? GgufLayout::key_pairs : GgufLayout::same},
      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  gguf.read_config = read_llama_like;
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model& model) {
    write_llama_like(file, config, model);
  };
  gguf.check_writable = [](const Json& config) {
    check(!config.boolean_or("mlp_bias", false), "gguf",
          "has no place for biases of Llama's feed-forward part");
  };
  return gguf;
}

GgufSpec gpt_like_gguf(const std::string& architecture, const std::string& prefix,
                       const std::string& layers, std::vector<GgufTensor> tensors,
                       std::vector<GgufTensor> layer_tensors, std::vector<GgufKey> keys) {
  GgufSpec gguf;
  gguf.architecture = architecture;
  gguf.prefix = prefix;
  gguf.layers = layers;
  gguf.tensors = std::move(tensors);
  gguf.layer_tensors = std::move(layer_tensors);
  gguf.keys = std::move(keys);
  gguf.read_config = [](const GgufMetadata& file, JsonBuilder& config) {
    config.set("tie_word_embeddings", !file.has_tensor("output.weight"));
  };
  return gguf;
}

ModelSpec llama_like_spec(const std::string& model_type, const std::string& family,
                          const std::string& gguf_architecture, bool gguf_pairs) {
  ModelSpec spec;
  spec.model_type = model_type;
  spec.kind = ModelKind::decoder;
  spec.heads = decoder_heads(family);
  spec.ties = {"model.", "embed_tokens.weight", "lm_head.weight", {}, false, false};
  spec.gguf = llama_like_gguf(gguf_architecture, gguf_pairs);
  spec.train_tasks = {"lm"};
  spec.fresh_config = [model_type, family](const FreshSizes& sizes) {
    return JsonBuilder()
        .set("model_type", model_type)
        .set("architectures", std::vector<std::string>{family + "ForCausalLM"})
        .set("vocab_size", sizes.vocab_size)
        .set("hidden_size", sizes.hidden_size)
        .set("num_hidden_layers", sizes.num_layers)
        .set("num_attention_heads", sizes.num_heads)
        .set("num_key_value_heads", sizes.num_heads)
        .set("intermediate_size", sizes.intermediate_size)
        .set("max_position_embeddings", sizes.context_length)
        .set("rms_norm_eps", 1e-5)
        .set("tie_word_embeddings", true);
  };
  return spec;
}

}  // namespace heed
