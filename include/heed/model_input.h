#pragma once

#include <array>
#include <cstdint>

#include "heed/tensor.h"

namespace heed {

/// Inputs of a full pass, by Hugging Face's names. A model takes those it knows; others are an
/// error.
struct ModelInput {
  Tensor input_ids;               ///< i64 [B, T]
  Tensor attention_mask;          ///< i64 or u8 [B, T], 1 = real
  Tensor token_type_ids;          ///< i64 [B, T]
  Tensor decoder_input_ids;       ///< i64 [B, T]
  Tensor decoder_attention_mask;  ///< i64 or u8 [B, T]
  Tensor pixel_values;            ///< f32 [B, C, H, W]
  Tensor input_features;          ///< f32 [B, mels, frames]: a log-mel spectrogram
  Tensor features;                ///< f32 [B, N, F]: image regions, or a sequence to regress on
  Tensor decoder_features;        ///< f32 [B, T, F]: the regressor's shifted targets
  Tensor global_attention_mask;   ///< i64 or u8 [B, T], 1 = attends to all (Longformer)
  Tensor start_positions;         ///< i64 [B]: first token of the answer (question answering)
  Tensor end_positions;           ///< i64 [B]: its last token
  Tensor context_input_ids;       ///< i64 [B * n_docs, T]: documents with the question (RAG)
  Tensor context_attention_mask;  ///< i64 or u8 [B * n_docs, T], 1 = real
  Tensor doc_scores;              ///< f32 [B, n_docs]: products of question and documents (RAG)
  Tensor labels;                  ///< i64 (classes or tokens, -100 = ignore) or f32 (regression)
  bool training = false;          ///< dropout on
  int64_t first_example = 0;      ///< index of the first example in the whole batch, for dropout
  bool want_loss = false;         ///< of a model whose loss needs no labels (CLIP)
  bool want_logits = true;        ///< false: only the loss, without the logits of a whole batch
  bool skip_padding = false;      ///< true: padded positions are not computed (their results are 0)
  double label_smoothing = 0.0;
  /// Fusion-in-Decoder: input_ids is [B * passages, T], an example's passages one after another.
  /// Each is encoded by itself; the example's decoder attends to all of them as one sequence.
  int64_t passages = 1;
};

/// Every tensor of a ModelInput, for code that treats them alike.
inline constexpr std::array kInputTensors = {&ModelInput::input_ids,
                                             &ModelInput::attention_mask,
                                             &ModelInput::token_type_ids,
                                             &ModelInput::decoder_input_ids,
                                             &ModelInput::decoder_attention_mask,
                                             &ModelInput::pixel_values,
                                             &ModelInput::input_features,
                                             &ModelInput::features,
                                             &ModelInput::decoder_features,
                                             &ModelInput::global_attention_mask,
                                             &ModelInput::start_positions,
                                             &ModelInput::end_positions,
                                             &ModelInput::context_input_ids,
                                             &ModelInput::context_attention_mask,
                                             &ModelInput::doc_scores,
                                             &ModelInput::labels};

}  // namespace heed
