#pragma once

#include "heed/models.h"

// The config.json of models that are trained from scratch, where several families share one form.

namespace heed {

/// BERT's names: hidden_size, num_hidden_layers …; the head is the task's.
JsonBuilder bert_like_fresh_config(const std::string& model_type, const std::string& family,
                                   const FreshSizes& sizes);
/// Marian's names, for both sides: encoder_layers, decoder_ffn_dim …
JsonBuilder stack_fresh_config(const std::string& model_type, const FreshSizes& sizes);
JsonBuilder vit_fresh_config(const FreshSizes& sizes);

}  // namespace heed
