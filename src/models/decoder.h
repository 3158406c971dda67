#pragma once

#include <string>
#include <vector>

#include "heed/models.h"
#include "models/common.h"
#include "models/task_heads.h"

namespace heed {

/// Names of a decoder's parameters, without ".weight" and ".bias". An empty name: the part is
/// absent.
struct DecoderNames {
  std::string base = "model";  ///< in front of everything but the heads
  std::string stack;           ///< below it, in front of embeddings and layers (OPT)
  std::string embedding = "embed_tokens";
  std::string positions;  ///< learned positions
  std::string embedding_norm;
  std::string project_in;   ///< from embedding_size to hidden_size, where they differ
  std::string project_out;  ///< and back, before the head
  std::string layers = "layers";
  std::string final_norm = "norm";
  std::string lm_head = "lm_head";
  std::string token_head = "score";  ///< classifier of tokens, with a bias
  std::string attention = "self_attn";
  std::string query = "q_proj";
  std::string key = "k_proj";
  std::string value = "v_proj";
  std::string qkv;  ///< one matrix instead of the three
  std::string output = "o_proj";
  std::string query_norm;
  std::string key_norm;
  std::string mlp = "mlp";
  std::string gate = "gate_proj";  ///< empty: the feed-forward part has no gate
  std::string up = "up_proj";
  std::string gate_up;  ///< one matrix instead of gate and up
  std::string down = "down_proj";
  std::string attention_norm = "input_layernorm";     ///< before attention
  std::string attention_post_norm;                    ///< after it, before the residual
  std::string mlp_norm = "post_attention_layernorm";  ///< before the feed-forward part
  std::string mlp_post_norm;                          ///< after it, before the residual
};

/// What a decoder-only model is made of: a family's config.json, read once.
struct DecoderConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t context_length = 0;
  int64_t embedding_size = 0;  ///< 0: as hidden_size
  DecoderNames names;

  Norm::Options norm;     ///< of every norm
  bool pre_norm = true;   ///< norms before the parts, or after their residuals
  bool parallel = false;  ///< attention and feed-forward read the same rows (GPT-J, Phi, Falcon)
  double residual_scale = 1.0;

  QkvLayout qkv_layout = QkvLayout::blocks;
  WeightLayout weight_layout = WeightLayout::out_in;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool lm_head_bias = false;
  bool norm_per_head = true;  ///< query_norm and key_norm: of each head, or of the whole projection
  std::vector<Rotary> rotary;    ///< one for all layers or one for each; undefined: none
  std::vector<int64_t> windows;  ///< one for all layers or one for each; 0: no window
  bool alibi = false;
  bool scale_alibi = false;  ///< ALiBi's bias is scaled like the scores (Falcon)
  std::optional<double> attention_scale;
  std::vector<double> attention_scales;  ///< one for each layer, where they differ
  double attention_softcap = 0.0;

  Activation activation = Activation::silu;
  double embedding_scale = 1.0;
  int64_t position_offset = 0;               ///< first row of the learned positions
  bool positions_count_real_tokens = false;  ///< padding does not count (OPT)
  double logits_scale = 1.0;
  double logits_softcap = 0.0;
  bool tied = false;
  std::optional<int64_t> padding;  ///< pad_token_id
  bool embedding_padding = true;   ///< its embedding takes no gradient

  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;
  double residual_dropout = 0.0;
  double classifier_dropout = 0.1;  ///< before the classifier of tokens
  Init init = Init::normal(0.02);
  std::optional<Init> residual_init;  ///< of the matrices that write to the residual stream
  std::vector<std::string> ignored;   ///< tensors of a file that are not read: "*.inv_freq"
};

/// Reads the sizes that Llama-like configurations have in common, by Hugging Face's names.
/// `rotated`: for families that rotate a part of a head, the fraction where config.json says none.
DecoderConfig llama_like_config(const Json& config, std::optional<double> rotated = {});

/// The configuration with a value for a key that it does not mention.
template <class T>
Json with_default(const Json& config, std::string_view key, const T& value) {
  return config.mentions(key)
             ? config
             : JsonBuilder(config)
                   .set(key,
                        static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, T>>(value))
                   .build(config.file());
}
/// Refuses use_bidirectional_attention.
void check_bidirectional(const Json& config);
/// Norms after attention and feed-forward instead of before them (OLMo 2, EXAONE 4).
void use_post_norms(DecoderConfig& decoder);
void use_post_norms(GgufSpec& gguf);
/// rms_norm_eps where neither file says it.
void use_norm_eps(GgufSpec& gguf, double eps);
/// attn_q_norm and attn_k_norm.
void add_query_key_norms(GgufSpec& gguf, GgufLayout layout = GgufLayout::same);

/// Windows of all layers: config.json's layer_types where it is there, else by `windowed`.
std::vector<int64_t> windows_by_layer(const Json& config, int64_t layers, int64_t window,
                                      const std::function<bool(int64_t layer)>& windowed);

/// A decoder-only Transformer of any family: embedding, blocks, final norm, and a head for the next
/// token or for sequence classification.
std::unique_ptr<Model> make_decoder(const Json& config, const Scope& scope,
                                    const DecoderConfig& decoder);

/// Heads of a decoder family: {"LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaModel"}.
std::vector<ModelHead> decoder_heads(const std::string& family, const std::string& base = "model.");
/// The GGUF names and keys of a Llama-like architecture; `pairs`: whether its files keep the rows
/// of queries and keys in rotary pairs.
GgufSpec llama_like_gguf(const std::string& architecture, bool pairs);
/// Its sizes and rotary settings; `rotated`: the fraction of a head's columns that is rotated.
void write_llama_like(GgufOutput& file, const Json& config, const Model& model,
                      double rotated = 1.0);
/// The GGUF names of a GPT-like architecture with LayerNorm: of the embedding, the final norm and
/// the head, and where config.json keeps the sizes.
GgufSpec gpt_like_gguf(const std::string& architecture, const std::string& prefix,
                       const std::string& layers, std::vector<GgufTensor> tensors,
                       std::vector<GgufTensor> layer_tensors, std::vector<GgufKey> keys);
/// What a Llama-like family has in common; `make` and differences are the family's own.
ModelSpec llama_like_spec(const std::string& model_type, const std::string& family,
                          const std::string& gguf_architecture, bool gguf_pairs);

}  // namespace heed
