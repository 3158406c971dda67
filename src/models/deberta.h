#pragma once

#include "models/encoder.h"

namespace heed {

/// How DeBERTa reads positions.
struct DebertaPositions {
  bool relative = false;             ///< there is a table of relative positions
  bool content_to_position = false;  ///< "c2p"
  bool position_to_content = false;  ///< "p2c"
  /// Kinds of scores that pos_att_type names, which scale the scores even where there is no table.
  int64_t named_kinds = 0;
  bool shared_projections = false;  ///< positions go through the layer's query and key projections
  bool norm = false;                ///< LayerNorm on the table
  int64_t buckets = 0;              ///< 0: one row per distance
  int64_t max_distance = 0;
  int64_t kernel = 0;  ///< of the convolution behind the first layer; 0: there is none
  int64_t groups = 1;
  Activation activation = Activation::tanh;

  /// Half the rows of the table.
  int64_t span() const { return buckets > 0 ? buckets : max_distance; }
};

DebertaPositions read_deberta_positions(const Json& config, const EncoderConfig& encoder);
/// Puts disentangled attention (and the convolution) in place of the blocks' plain attention.
void use_disentangled_attention(EncoderConfig& encoder, const DebertaPositions& positions);

}  // namespace heed
