#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "heed/attention.h"
#include "heed/nn.h"
#include "heed/ops.h"

// Attention with its weights, blocks and Transformers.

namespace heed {

// Attention and blocks ----------------------------------------------------------------------------

/// The result of attention and, if requested, the weights.
struct AttentionOutput {
  Tensor output;   ///< [B, Tq, E]
  Tensor weights;  ///< [B, num_heads, Tq, Tk], without a gradient; undefined if not requested
};

/// How an attention layer is called on [B, T, E].
struct AttentionCall {
  Tensor mask = {};           ///< bool or u8, true = attend; broadcastable to [B, heads, Tq, Tk]
  Tensor key_padding = {};    ///< bool or u8 [B, Tk], true = real
  bool training = false;      ///< dropout on
  bool need_weights = false;  ///< also compute the weights
};

/// How one projection holds queries, keys and values.
enum class QkvLayout {
  blocks,     ///< all queries, all keys, all values
  per_group,  ///< for each key-value head: its queries, its key, its value (GPT-NeoX, BLOOM,
              ///< Falcon)
};

/// Self- or cross-attention with its projections. All layers call heed::attention().
class HEED_API MultiHeadAttention {
 public:
  /// A layer of its own, with PyTorch's parameters: in_proj_weight, in_proj_bias, out_proj.
  struct LayerOptions {
    int64_t embed_dim = 0;
    int64_t num_heads = 1;
    bool bias = true;
    bool causal = false;
    double dropout = 0.0;  ///< on the weights
  };
  struct Options {
    int64_t num_heads = 1;
    int64_t num_kv_heads = 0;  ///< 0: num_heads
    int64_t head_dim = 0;
    bool causal = false;
    /// > 0: only that many last positions (sliding window); without `causal`, that many positions
    /// before and after each query besides its own.
    int64_t window = 0;
    std::optional<double> scale;
    double softcap = 0.0;
    double dropout = 0.0;
    Rotary rotary;
    bool alibi = false;         ///< adds ALiBi's bias to the scores
    bool scale_alibi = false;   ///< scales that bias like the scores
    Norm query_norm, key_norm;  ///< of queries and keys before the rotation; may be undefined
    bool norm_per_head = true;  ///< over head_dim, or over the whole projection
    QkvLayout qkv_layout = QkvLayout::blocks;  ///< of the one projection, where there is one
  };
  MultiHeadAttention() = default;
  MultiHeadAttention(const Scope& scope, const LayerOptions& options);
  /// Three projections.
  MultiHeadAttention(Linear q, Linear k, Linear v, Linear out, const Options& options);
  /// One projection to q | k | v.
  MultiHeadAttention(Linear qkv, Linear out, const Options& options);
  /// One projection to q and one, of the encoder output, to k | v.
  MultiHeadAttention(Linear q, Linear kv, Linear out, const Options& options);

  /// query [B, Tq, E], key and value [B, Tk, E].
  AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionCall& call = {}) const;
  /// Rows in, rows out; `residual` is added to the result. Keys and values come from the rows
  /// themselves and the caches.
  Tensor operator()(const Tensor& rows, const Pass& pass, int64_t layer,
                    const Tensor& residual = {}) const;
  /// Keys and values come from pass.encoder_hidden_states.
  Tensor cross(const Tensor& rows, const Pass& pass, int64_t layer,
               const Tensor& residual = {}) const;
  const Options& options() const { return options_; }

 private:
  std::array<Tensor, 3> project(const Tensor& rows) const;
  std::pair<Tensor, Tensor> memory_keys_values(const Tensor& memory) const;
  enum class Part { query, key, value };
  Linear projection(Part part) const;
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Layout& keys,
                const Tensor& bias, const Pass& pass) const;
  Tensor attend_cached(const Tensor& q, const Pass& pass, int64_t layer, bool cross) const;
  AttentionOptions attention_options(int64_t queries, int64_t keys, const Pass& pass) const;

  Linear q_, k_, v_, qkv_, kv_, out_;
  Options options_;
};

/// One Transformer block: self-attention, cross-attention where there is one, feed-forward, each
/// with its residual and norm.
class HEED_API Block {
 public:
  /// Mixes positions in place of self-attention (Fourier mixing, sparse attention): rows in, rows
  /// out, without the residual.
  using Mixer = std::function<Tensor(const Tensor& rows, const Pass& pass, int64_t layer)>;
  struct Parts {
    Norm attention_norm;  ///< may be undefined, like every norm here
    MultiHeadAttention attention;
    Mixer mixer = nullptr;     ///< used instead of `attention` where it is set
    Norm attention_post_norm;  ///< of attention's result, before the residual is added (Gemma 2)
    Norm cross_norm;
    MultiHeadAttention cross;
    bool has_cross = false;
    Norm feed_forward_norm;
    FeedForward feed_forward;
    Norm feed_forward_post_norm;
    bool pre_norm = true;   ///< norm before each part (GPT-2) or after its residual (BERT)
    bool parallel = false;  ///< attention and feed-forward read the same rows (GPT-J); pre-norm
    double residual_scale = 1.0;  ///< of each part's result (Granite)
    /// LayerScale: factors [hidden_size] of attention's and feed-forward's results; may be
    /// undefined.
    Tensor attention_scale, feed_forward_scale;
    double dropout = 0.0;  ///< on each part's result, before the residual is added
    std::optional<double> attention_dropout;  ///< on self-attention's result, where it differs
    /// Makes the block's result from the rows that went in and came out (DeBERTa's convolution);
    /// may be empty.
    std::function<Tensor(const Tensor& in, const Tensor& out, const Pass& pass)> finish = nullptr;
  };
  Block() = default;
  explicit Block(Parts parts) : parts_(std::move(parts)) {}
  Tensor operator()(const Tensor& rows, const Pass& pass, int64_t layer) const;

 private:
  Parts parts_;
};

/// Runs the blocks in order, each inside HookScope "blocks.N", and calls `after` with each block's
/// result. `recompute` enables activation checkpointing: only the inputs of the blocks are stored,
/// and backward() recomputes the rest.
HEED_API Tensor run_blocks(const std::vector<Block>& blocks, Tensor rows, const Pass& pass,
                           bool recompute,
                           const std::function<void(int64_t, const Tensor&)>& after = nullptr);

// Transformers ------------------------------------------------------------------------------------
//
// Transformers by their options, on x [B, T, hidden_size]:
//
//   Scope s = Scope::fresh(1);
//   Transformer body(s / "body",
//                    {.num_layers = 2, .hidden_size = 64, .num_heads = 4, .causal = true});
//   Tensor y = body(x);
//
// Parameters have PyTorch's names (layers.0.self_attn.in_proj_weight, layers.0.linear1.weight, …),
// so that the state of a torch.nn.TransformerEncoder or TransformerDecoder loads as it is.

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

// Further attention layers ------------------------------------------------------------------------
//
// Layers with their own weights, on x [B, T, E]. Parameters have Hugging Face's names where it has
// the layer.

/// One head with projections and an output matrix of its own: query, key, value, output.
class HEED_API SingleHeadAttention {
 public:
  struct Options {
    int64_t head_dim = 0;  ///< 0: the size of x
    bool causal = false;
    bool bias = true;
    bool output = true;  ///< whether it has an output matrix
    double dropout = 0.0;
  };
  SingleHeadAttention() = default;
  SingleHeadAttention(const Scope& scope, int64_t width, const Options& options);
  /// Keys and values come from `memory` (cross-attention), or from x where it is undefined.
  Tensor operator()(const Tensor& x, const Tensor& memory = {}, const Tensor& key_padding = {},
                    bool training = false) const;

 private:
  friend class HeadList;
  Linear query_, key_, value_, output_;
  Options options_;
};

/// Multi-head attention as a list of single heads, joined and projected: heads.N, output. The fused
/// MultiHeadAttention gives the same numbers from fused(): it is the same sum, in one product.
class HEED_API HeadList {
 public:
  HeadList() = default;
  HeadList(const Scope& scope, int64_t width, int64_t heads, bool causal = false,
           double dropout = 0.0);
  Tensor operator()(const Tensor& x, const Tensor& memory = {}, const Tensor& key_padding = {},
                    bool training = false) const;
  MultiHeadAttention fused() const;

 private:
  std::vector<SingleHeadAttention> heads_;
  Linear output_;
};

/// A decoder's look at an encoder's states as in 2015: query [B, Tq, query_width], memory
/// [B, Tk, key_width] -> context [B, Tq, key_width]. Weights: w_query, w_key, v_score (additive);
/// w_general; w_concat, v_score (concat).
class HEED_API ScoredAttention {
 public:
  enum class Kind { additive, dot, general, concat };
  ScoredAttention() = default;
  ScoredAttention(const Scope& scope, Kind kind, int64_t query_width, int64_t key_width,
                  int64_t hidden);
  Tensor operator()(const Tensor& query, const Tensor& memory,
                    const Tensor& key_padding = {}) const;

 private:
  Kind kind_ = Kind::dot;
  Tensor w_query_, w_key_, w_general_, w_concat_, v_score_;
};

/// query, key, value and query_global, key_global, value_global; no output matrix.
class HEED_API LongformerSelfAttention {
 public:
  LongformerSelfAttention() = default;
  LongformerSelfAttention(const Scope& scope, int64_t width, int64_t heads, int64_t window,
                          double dropout = 0.0);
  Tensor operator()(const Tensor& x, const Tensor& global_mask = {}, const Tensor& key_padding = {},
                    bool training = false) const;

 private:
  Linear query_, key_, value_, query_global_, key_global_, value_global_;
  int64_t heads_ = 1;
  int64_t window_ = 512;
  double dropout_ = 0.0;
};

/// query, key, value; no output matrix. The random blocks are drawn from `seed` for every length.
class HEED_API BigBirdSelfAttention {
 public:
  struct Options {
    int64_t num_heads = 1;
    int64_t block_size = 64;
    int64_t random_blocks = 3;
    bool hf_compat = false;
    uint64_t seed = 0;
    double dropout = 0.0;
  };
  BigBirdSelfAttention() = default;
  BigBirdSelfAttention(const Scope& scope, int64_t width, const Options& options);
  /// Any length: what is missing to whole blocks is padded.
  Tensor operator()(const Tensor& x, const Tensor& key_padding = {}, bool training = false) const;

 private:
  Linear query_, key_, value_;
  Options options_;
};

/// query, key, value, output; the projection is drawn from `seed` and frozen.
class HEED_API PerformerSelfAttention {
 public:
  PerformerSelfAttention() = default;
  PerformerSelfAttention(const Scope& scope, int64_t width, int64_t heads, int64_t features,
                         bool causal, uint64_t seed = 0);
  Tensor operator()(const Tensor& x, const Tensor& key_padding = {}) const;

 private:
  Linear query_, key_, value_, output_;
  Tensor projection_;
  int64_t heads_ = 1;
  bool causal_ = false;
};

/// One Swin layer: layernorm_before, attention.{self.{query,key,value,
/// relative_position_bias_table}, output.dense}, layernorm_after, intermediate.dense, output.dense.
class HEED_API SwinLayer {
 public:
  struct Options {
    int64_t num_heads = 1;
    int64_t window = 7;
    int64_t shift = 0;
    double mlp_ratio = 4.0;
    double eps = 1e-5;
    double dropout = 0.0;         ///< on the weights
    double hidden_dropout = 0.0;  ///< on each part's result
    bool qkv_bias = true;
    Activation activation = Activation::gelu;
    std::optional<Init> init = {};  ///< of the matrices; default Init::fan_in
  };
  SwinLayer() = default;
  SwinLayer(const Scope& scope, int64_t width, const Options& options);
  /// x [B, height·width, E], row by row. A grid that windows do not divide is padded after the
  /// norm; where it is no larger than a window there is no shift.
  Tensor operator()(const Tensor& x, int64_t height, int64_t width, bool training = false) const;
  /// The same as part of a model: `pass.layout` is that of the grid.
  Tensor operator()(const Tensor& x, int64_t height, int64_t width, const Pass& pass) const;

 private:
  Tensor attend(const Tensor& x, int64_t height, int64_t width, const Pass& pass) const;

  Norm before_, after_;
  Linear query_, key_, value_, output_, up_, down_;
  Tensor bias_table_;
  Options options_;
};

}  // namespace heed
