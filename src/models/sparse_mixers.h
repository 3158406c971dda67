#pragma once

#include "models/encoder.h"

namespace heed {

// Attention whose time and memory grow with the length, for the blocks of an encoder: query, key
// and value by the names of the configuration, and the output matrix behind them.

/// attention_window of a Longformer's configuration: one for all layers or one for each, even.
std::vector<int64_t> attention_windows(const Json& config, int64_t layers);

/// Longformer: `window` positions around each query, half of them before it, and the pass's global
/// rows, which have projections of their own (query_global …).
Block::Mixer longformer_mixer(const Scope& scope, const EncoderConfig& encoder, int64_t window);

/// BigBird: neighbouring, first, last and random blocks. In evaluation the random blocks are block
/// 0, as in the reference; in training they are drawn by layer.
Block::Mixer bigbird_mixer(const Scope& scope, const EncoderConfig& encoder, int64_t block_size,
                           int64_t random_blocks, int64_t layer);

/// Performer: FAVOR+ with `features` random features, drawn for each layer and stored with the
/// parameters as "projection"; projections of attention are q_proj, k_proj, v_proj and out_proj.
/// The causal form keeps a state of constant size per sequence while generating.
Block::Mixer performer_mixer(const Scope& scope, const EncoderConfig& encoder, int64_t features,
                             bool causal, int64_t layer);

/// An empty state of a causal Performer.
SequenceCache performer_cache(int64_t layers);

/// Nyströmformer: softmax through `landmarks` means of segments, and a convolution of the values
/// over `kernel` positions (0: none). `full`: plain attention in place of the landmarks.
Block::Mixer nystrom_mixer(const Scope& scope, const EncoderConfig& encoder, int64_t landmarks,
                           int64_t kernel, bool full);

}  // namespace heed
