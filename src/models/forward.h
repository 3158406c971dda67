#pragma once

#include <string>

#include "heed/io.h"
#include "heed/models.h"

namespace heed {

/// A model's input from tensors by Hugging Face's names; `file` appears in errors, which name every
/// tensor that no model takes.
ModelInput model_input(const TensorMap& tensors, const std::string& file);

/// What a pass gives besides its results.
struct ForwardWanted {
  bool hidden_states = false;
  bool attentions = false;
  bool grads = false;  ///< needs labels and trainable parameters
};

/// One pass, its results by Hugging Face's names: logits, hidden_states.N, attentions.N
/// [B, H, Tq, Tk] (with encoder_, decoder_ or cross_ in front for two stacks), loss, and
/// grad.<parameter>.
TensorMap run_forward(const Model& model, const ModelInput& input, const ForwardWanted& wanted);

/// What the decoder of an encoder-decoder over tokens reads in a full pass, i64 [B, T]:
/// decoder_input_ids, or what the model makes of labels or, where its decoder reads the source (a
/// classifier on BART), of input_ids. Undefined for other models and where the input lacks these.
Tensor decoder_input_ids(const Model& model, const ModelInput& input);

/// Whether the model tells the first and the second text of a pair apart by token_type_ids.
bool reads_token_types(const Model& model);

}  // namespace heed
