#pragma once

#include "heed/models.h"

namespace heed {

/// A decoder that can look at an encoder's result: one half of a larger model.
class CrossDecoder {
 public:
  virtual ~CrossDecoder() = default;
  /// A full pass over decoder_input_ids (padding by decoder_attention_mask); labels are at the same
  /// positions.
  virtual ModelOutput forward_with(const ModelInput& input, const EncoderOutput& memory) const = 0;
  /// Whether it was made with cross-attention.
  virtual bool looks_at_memory() const = 0;
};

}  // namespace heed
