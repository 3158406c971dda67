#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/nn.h"

// Transformers by their options, on x [B, T, hidden_size]:
//
//   Scope s = Scope::fresh(1);
//   Transformer body(s / "body",
//                    {.num_layers = 2, .hidden_size = 64, .num_heads = 4, .causal = true});
//   Tensor y = body(x);
//
// Parameters have PyTorch's names (layers.0.self_attn.in_proj_weight, layers.0.linear1.weight, …),
// so that the state of a torch.nn.TransformerEncoder or TransformerDecoder loads as it is.

namespace heed {

struct TransformerOptions {
  int64_t num_layers = 6;
  int64_t hidden_size = 512;
  int64_t num_heads = 8;
  std::optional<int64_t> intermediate_size = {};  ///< default: 4 · hidden_size
  Activation activation = Activation::gelu;
  double dropout = 0.0;          ///< on attention's weights and on each part's result
  bool pre_norm = true;          ///< norm before each part (GPT-2), or after its residual (BERT)
  bool causal = false;           ///< a position sees itself and those before it
  bool cross_attention = false;  ///< each block also attends to encoder_hidden_states
  std::optional<bool> final_norm = {};  ///< a norm after the last block; default: as pre_norm
  double norm_eps = 1e-5;
};

/// Inputs of a stack of blocks besides x.
struct TransformerInput {
  /// Of self-attention, besides the causal mask: bool or u8, true = attend, or floating, added to
  /// the scores; broadcastable to [B, heads, T, T].
  Tensor mask = {};
  Tensor key_padding = {};            ///< bool or u8 [B, T], true = real
  Tensor encoder_hidden_states = {};  ///< [B, S, hidden_size], for cross-attention
  Tensor encoder_padding = {};        ///< bool or u8 [B, S], true = real
  bool training = false;              ///< dropout on
};

/// One block on [B, T, hidden_size]: self-attention, optional cross-attention and a
/// feed-forward network, each with its residual and norm. `num_layers` is not read.
class HEED_API TransformerBlock {
 public:
  TransformerBlock() = default;
  TransformerBlock(const Scope& scope, const TransformerOptions& options);
  Tensor operator()(const Tensor& x, const TransformerInput& input = {}) const;
  const Block& block() const { return block_; }

 private:
  Block block_;
  int64_t hidden_size_ = 0;
  bool cross_ = false;
};

/// A stack of blocks, followed by a norm if the options ask for it.
class HEED_API Transformer {
 public:
  Transformer() = default;
  Transformer(const Scope& scope, const TransformerOptions& options);
  /// x [B, T, hidden_size] -> the same shape.
  Tensor operator()(const Tensor& x, const TransformerInput& input = {}) const;
  /// Activation checkpointing: stores only the inputs of the blocks; backward() recomputes the
  /// rest.
  void set_gradient_checkpointing(bool on) { gradient_checkpointing_ = on; }
  const TransformerOptions& options() const { return options_; }

 private:
  TransformerOptions options_;
  std::vector<Block> blocks_;
  Norm norm_;
  bool gradient_checkpointing_ = false;
};

/// An encoder: every position attends to all others.
class HEED_API TransformerEncoder : public Transformer {
 public:
  TransformerEncoder() = default;
  TransformerEncoder(const Scope& scope, TransformerOptions options);
};

/// A decoder: a position attends to earlier positions and to the encoder output.
class HEED_API TransformerDecoder : public Transformer {
 public:
  TransformerDecoder() = default;
  TransformerDecoder(const Scope& scope, TransformerOptions options);
  using Transformer::operator();
  Tensor operator()(const Tensor& x, const Tensor& encoder_hidden_states,
                    bool training = false) const {
    return Transformer::operator()(
        x, {.encoder_hidden_states = encoder_hidden_states, .training = training});
  }
};

}  // namespace heed
