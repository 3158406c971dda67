#pragma once

#include <optional>
#include <string>

#include "heed/models.h"
#include "models/encoder_decoder.h"

namespace heed {

/// How one family of BART-like encoder-decoders differs from the others. Sizes, dropout and tokens
/// come from config.json, whose names these families share.
struct Seq2SeqConfig {
  std::string family;  ///< "Bart": in front of the names of its classes, and in messages
  std::string generation_class = "ForConditionalGeneration";  ///< behind `family`
  std::string base = "model";                                 ///< prefix of both stacks: "led"
  bool longformer_encoder = false;  ///< attention in windows, and two limits of the length (LED)
  bool pre_norm = false;
  bool final_norm = false;      ///< layer_norm after each stack
  bool embedding_norm = false;  ///< layernorm_embedding before each stack
  std::string activation = "gelu";
  bool scale_embedding = false;  ///< where config.json does not say
  bool logits_bias = true;       ///< final_logits_bias
  /// Whether config.json may give each side an embedding of its own (Marian).
  bool sides_may_differ = false;

  bool learned_positions = false;
  int64_t position_offset = 0;
  SinusoidLayout sinusoids = SinusoidLayout::concatenated;
  bool positions_count_real_tokens = false;  ///< from pad_token_id + 1 on; padding has none

  std::optional<int64_t> padding;  ///< pad_token_id where config.json does not say; default: last
  std::optional<int64_t> start;    ///< decoder_start_token_id likewise; default: padding
  /// Whether labels are shifted by moving the last one to the front (mBART).
  bool starts_with_last_label = false;
  /// Whether the decoder reads the source, shifted, where it is given nothing else (BART).
  bool decoder_reads_source = false;
};

/// The model of a family: for text generation, for sequence classification, or without a head.
std::unique_ptr<Model> make_seq2seq(const Json& config, const Scope& root,
                                    const Seq2SeqConfig& family);

/// The description of a family.
ModelSpec seq2seq_spec(const std::string& model_type, const Seq2SeqConfig& family);

}  // namespace heed
