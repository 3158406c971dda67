#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heed/models.h"
#include "models/common.h"
#include "models/task_heads.h"

namespace heed {

/// Names of an encoder's parameters, without ".weight" and ".bias". Those of the first group stand
/// below `base`, those of a layer below its number; heads stand at the root. An empty name: the
/// part is absent.
struct EncoderNames {
  std::string base = "bert";
  std::string words = "embeddings.word_embeddings";
  std::string positions = "embeddings.position_embeddings";
  std::string token_types = "embeddings.token_type_embeddings";
  std::string embedding_norm = "embeddings.LayerNorm";
  std::string projection;        ///< from embedding_size to hidden_size, behind the norm
  std::string early_projection;  ///< the same in front of the norm, without a bias (DeBERTa)
  std::string layers = "encoder.layer";
  std::string relative_bias;  ///< [buckets, heads], added to the scores of every layer (MPNet)
  std::string final_norm;
  std::string pooler;

  std::string query = "attention.self.query";
  std::string key = "attention.self.key";
  std::string value = "attention.self.value";
  std::string qkv;  ///< one matrix instead of the three
  std::string output = "attention.output.dense";
  std::string attention_norm = "attention.output.LayerNorm";
  std::string up = "intermediate.dense";
  std::string gate_up;  ///< one matrix to gate | up instead of `up`
  std::string down = "output.dense";
  std::string mlp_norm = "output.LayerNorm";
  std::string attention_scale;  ///< LayerScale's factors of attention's result
  std::string mlp_scale;        ///< and of the feed-forward part's

  std::string lm_dense = "cls.predictions.transform.dense";
  std::string lm_norm = "cls.predictions.transform.LayerNorm";
  std::string lm_decoder = "cls.predictions.decoder";
  std::string lm_bias = "cls.predictions.bias";  ///< of the decoder, under a name of its own
  /// A layer between the first token's row and the classifier; empty: the pooler.
  std::string sequence_dense;
  std::string sequence_norm;  ///< behind it
  std::string sequence_out = "classifier";
  std::string token_out = "classifier";
  std::string question_out = "qa_outputs";
  /// A feed-forward part with residual and norm in front of it: intermediate.dense, output.dense
  /// and output.LayerNorm (BigBird).
  std::string question_mlp;
  std::string replaced_dense;  ///< ELECTRA's discriminator: a number per token
  std::string replaced_out;
};

/// What a BERT-like model is made of: a family's config.json, read once.
struct EncoderConfig {
  std::string family;  ///< in front of the class names: "Roberta"
  EncoderNames names;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t embedding_size = 0;  ///< 0: as hidden_size
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t intermediate_size = 0;
  int64_t context_length = 0;
  int64_t token_types = 0;   ///< rows of the table of segments; 0: there is none
  int64_t layer_groups = 0;  ///< > 0: that many groups of layers share their weights (ALBERT)
  int64_t group_layers = 1;  ///< layers of a group

  Norm::Options norm = {.eps = 1e-12};
  bool pre_norm = false;   ///< norms before the parts (ModernBERT) or after their residuals
  bool first_norm = true;  ///< whether the first layer has attention_norm
  bool causal = false;     ///< whether a token sees none behind it (CLIP's texts)
  bool attention_bias = true;
  std::optional<bool> key_bias;     ///< of the key's projection, where it differs
  std::optional<bool> output_bias;  ///< of the output's
  double layer_scale = 1.0;         ///< what LayerScale's factors start with
  bool mlp_bias = true;
  bool classifier_bias = true;
  Activation activation = Activation::gelu;

  int64_t position_offset = 0;            ///< first row of the table of positions
  double embedding_scale = 1.0;           ///< of the words' rows (BigBird)
  bool dropout_before_norm = false;       ///< of the embeddings (BigBird)
  bool dropout_after_projection = false;  ///< of the embeddings (FNet)
  bool mask_embeddings = false;           ///< padding is embedded as zeros (DeBERTa)
  std::optional<int64_t> padding;         ///< pad_token_id: its embedding takes no gradient
  /// Positions count from the padding id + 1, over tokens that are not padding (RoBERTa).
  bool positions_after_padding = false;
  std::vector<Rotary> rotary;    ///< one for each layer, or none
  std::vector<int64_t> windows;  ///< positions to each side, one for each layer; 0: no window
  int64_t relative_buckets = 0;
  /// Takes global_attention_mask (Longformer). Where none is given, a classifier's first token and
  /// the question in front of `separator` attend to all.
  bool reads_global_mask = false;
  std::optional<int64_t> separator;
  /// No answer begins or ends in the question, which reaches to the first `separator`; where no
  /// token types are given, it has type 0 and the text behind it type 1 (BigBird).
  bool hides_question = false;
  /// Makes what stands in place of plain attention: fills the block's `mixer` (and `finish`) from
  /// the scopes of the body and of the layer.
  std::function<void(const Scope& base, const Scope& scope, int64_t layer, Block::Parts& parts)>
      make_mixer;

  double dropout = 0.0;  ///< after the embeddings and each part
  double attention_dropout = 0.0;
  std::optional<double> embedding_dropout;
  std::optional<double> attention_output_dropout;
  double mlp_dropout = 0.0;  ///< inside the feed-forward part

  Activation lm_activation = Activation::gelu;
  bool lm_head_bias = true;
  bool tied = true;
  bool keeps_pooler = false;  ///< a file has a pooler even where the head does not read it
  Activation pooler_activation = Activation::tanh;
  Activation sequence_activation = Activation::tanh;  ///< behind sequence_dense
  bool mean_pooling = false;            ///< sequences are classified by the mean of their rows
  bool tokens_through_dense = false;    ///< sequence_dense also for tokens and answers
  double sequence_input_dropout = 0.0;  ///< before sequence_dense
  double classifier_dropout = 0.0;      ///< before the classifier
  std::optional<double> token_dropout;  ///< likewise for tokens, where it differs
  double question_dropout = 0.0;        ///< before the answer's logits
  Init init = Init::normal(0.02);
  std::vector<std::string> ignored;  ///< tensors of a file that are not read
};

/// RoBERTa's names of heads, behind `base`.
EncoderNames roberta_names(const std::string& base);

/// Reads what BERT-like configurations have in common, by Hugging Face's names, and refuses what no
/// encoder here has (is_decoder, relative position embeddings).
EncoderConfig bert_like_config(const Json& config, const std::string& family,
                               const EncoderNames& names);
/// Positions count from the padding id + 1, and a classifier has a layer in front of it.
void use_roberta_positions(EncoderConfig& encoder, const Json& config,
                           std::optional<int64_t> padding);

/// One block of the stack, from the scopes of the body and of the layer.
Block make_encoder_block(const Scope& base, const Scope& scope, const EncoderConfig& encoder,
                         int64_t layer);

/// Rows of equal sequences as [B, T, hidden_size] at once, rows of others one sequence at a time:
/// `mix` gets the positions that are real (u8 [B, T], or undefined where all are) and a pass whose
/// layout is that of its sequences.
using SequenceMixer =
    std::function<Tensor(const Tensor& x, const Tensor& key_padding, const Pass& pass)>;
Block::Mixer by_sequence(SequenceMixer mix);

/// How GGUF keeps BERT and ModernBERT.
GgufSpec bert_gguf();
/// RoBERTa-like models are kept as BERTs, without the rows of positions in front of the first one:
/// others' files are read as BERTs, heed's own as what they were.
GgufSpec roberta_gguf(const std::string& model_type);
GgufSpec modernbert_gguf();

/// A BERT-like model of any family: embeddings, blocks, and the head that config.json names.
std::unique_ptr<Model> make_encoder(const Json& config, const Scope& scope,
                                    const EncoderConfig& encoder);

/// What BERT-like families have in common: classes, tied weights, training. `read` is called with
/// config.json; the names of the heads are taken from `names`.
ModelSpec bert_like_spec(const std::string& model_type, const std::string& family,
                         const EncoderNames& names,
                         const std::function<EncoderConfig(const Json& config)>& read);

}  // namespace heed
