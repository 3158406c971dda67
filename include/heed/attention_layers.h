#pragma once

#include <vector>

#include "heed/attention.h"
#include "heed/nn.h"
#include "heed/ops.h"
#include "heed/random.h"

// Variants of attention, as functions of their weights. q, k and v are [B, H, T, D]; masks, padding
// and dropout come from AttentionOptions and mean what they mean for attention(). Those that form
// a matrix of weights report it to the Observer in scope like attention() does.

namespace heed {

/// softmax(scores) · v for precomputed scores [B, Hq, Tq, Tk].
HEED_API Tensor attend_scores(const Tensor& scores, const Tensor& v,
                              const AttentionOptions& options = {});

/// Bahdanau et al. 2015: v_score · tanh(w_query q + w_key k). w_query [A, Dq], w_key [A, Dk],
/// v_score [A]; all heads share them.
HEED_API Tensor additive_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Tensor& w_query, const Tensor& w_key,
                                   const Tensor& v_score, const AttentionOptions& options = {});

/// Luong et al. 2015. dot: q · k, unscaled. general: q · (w_general k), w_general [Dq, Dk].
/// concat: v_score · tanh(w_concat [q; k]), w_concat [A, Dq + Dk].
HEED_API Tensor luong_dot_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});
HEED_API Tensor luong_general_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Tensor& w_general,
                                        const AttentionOptions& options = {});
HEED_API Tensor luong_concat_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const Tensor& w_concat, const Tensor& v_score,
                                       const AttentionOptions& options = {});

// Relative positions.

/// Shaw et al. 2018: learned vectors for the distance j - i, clipped to ±m, are added to keys
/// and values.
/// relative_key [2m+1, D], relative_value [2m+1, Dv] (either may be undefined).
HEED_API Tensor shaw_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& relative_key, const Tensor& relative_value,
                               const AttentionOptions& options = {});

/// T5's bucket of the distance key - query, i64 [queries, keys]; query i is at position i + offset.
HEED_API Tensor t5_buckets(int64_t queries, int64_t keys, int64_t offset, bool bidirectional,
                           int64_t buckets, int64_t max_distance);
HEED_API int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets,
                           int64_t max_distance);
/// The bias [1, H, queries, keys] of a table [buckets, H]; has a gradient.
HEED_API Tensor t5_bias(const Tensor& table, int64_t queries, int64_t keys, int64_t offset,
                        bool bidirectional, int64_t max_distance = 128);

/// DeBERTa's disentangled scores (He et al. 2021): content to position and position to content, as
/// a bias [B, H, T, T]. `q` and `k` are [B, H, T, D]; `position_key` and `position_query` (either
/// may be undefined) are [H, 2T-1, D]: row d + T - 1 stands for the distance d, which is key -
/// query for `position_key` and query - key for `position_query`.
HEED_API Tensor disentangled_bias(const Tensor& q, const Tensor& k, const Tensor& position_key,
                                  const Tensor& position_query, double scale);

/// ALiBi (Press et al. 2022): slopes f32 [heads], and -slope · |i + offset - j| as
/// [1, heads, queries, keys].
HEED_API Tensor alibi_slopes(int64_t heads);
HEED_API Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, int64_t offset);

// Sparse and linear attention: time and memory grow with T, not with T².

/// Longformer: each query attends to `window` / 2 keys on either side and to the global tokens;
/// global tokens have projections of their own and attend to everything.
struct LongformerInputs {
  Tensor q, k, v;                       ///< [B, H, T, D]
  Tensor q_global, k_global, v_global;  ///< [B, H, T, D]; read where there are global tokens
  Tensor global_mask;                   ///< u8 [B, T], 1 = global; undefined: none
  Tensor key_padding;                   ///< u8 [B, T], 1 = real; padded queries give zeros
  int64_t window = 512;                 ///< the total, an even number
  double dropout = 0.0;
  bool training = false;
};
HEED_API Tensor longformer_attention(const LongformerInputs& inputs);

/// BigBird: queries of block r attend to blocks r-1, r, r+1, the first, the last and
/// `random_blocks`; the first and last block attend to everything. If T <= (5 + 2·random) ·
/// block_size, attention is full.
struct BigBirdInputs {
  Tensor q, k, v;        ///< [B, H, T, D]
  Tensor random_blocks;  ///< i64 [H, blocks - 2, random]; a block that comes twice counts twice
  Tensor key_padding;    ///< u8 [B, T], 1 = real; padded queries give zeros
  int64_t block_size = 64;
  double dropout = 0.0;
  bool training = false;
};
HEED_API Tensor bigbird_attention(const BigBirdInputs& inputs);
/// Random blocks that the window and the global blocks do not cover, different for every head and
/// row; hf_compat: all 0, as Hugging Face's evaluation mode has them.
HEED_API Tensor bigbird_random_blocks(int64_t heads, int64_t blocks, int64_t random, RandomKey key,
                                      bool hf_compat = false);

/// Performer (FAVOR+): approximates the softmax kernel by positive random features. projection
/// [m, D]. In the causal form no later key affects a row, not even through the maximum.
HEED_API Tensor performer_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& projection, bool causal,
                                    const Tensor& key_padding = {});
/// What the keys of a causal sequence leave behind for the rows that follow: its size does not
/// depend on the length.
struct PerformerState {
  Tensor max;      ///< [B, H, 1, 1]: largest exponent so far; undefined at the start
  Tensor context;  ///< [B, H, m, Dv]: Σ exp(e - max) vᵀ
  Tensor total;    ///< [B, H, m, 1]: Σ exp(e - max)
  Tensor values;   ///< [B, H, 1, Dv]: Σ v
  Tensor count;    ///< [B, H, 1, 1]
};
/// The causal form for the next rows of sequences, whose keys so far are in `state`; adds the rows'
/// own keys to it.
HEED_API Tensor performer_continue(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Tensor& projection, PerformerState& state);
/// Rows orthogonal in blocks of D, with the lengths of Gaussian vectors: f32 [features, depth].
HEED_API Tensor performer_projection(int64_t features, int64_t depth, RandomKey key);

/// Swin: attention inside windows of a grid that may be shifted by half a window. q, k, v
/// [B, H, height·width, D] row by row; bias_table [(2·window - 1)², H] or undefined.
struct SwinInputs {
  Tensor q, k, v;
  Tensor bias_table;
  int64_t height = 0;
  int64_t width = 0;
  int64_t window = 7;
  int64_t shift = 0;
  double dropout = 0.0;
  bool training = false;
  int64_t first_example = 0;  ///< index of the first example in the whole batch, for dropout
};
HEED_API Tensor swin_attention(const SwinInputs& inputs);

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
