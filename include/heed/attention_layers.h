#pragma once

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/random.h"

// The other attentions, as functions of their weights. q, k and v are [B, H, T, D]; masks, padding
// and dropout come from AttentionOptions and mean what they mean for attention(). Those that form
// a matrix of weights report it to the Observer in scope like attention() does.

namespace heed {

/// The weighted sum of v under softmax(scores): for scores [B, Hq, Tq, Tk] of any making.
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

/// Shaw et al. 2018: vectors for the distance j - i, cut off at ±m, join keys and values.
/// relative_key [2m+1, D], relative_value [2m+1, Dv] (either may be undefined).
HEED_API Tensor shaw_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& relative_key, const Tensor& relative_value,
                               const AttentionOptions& options = {});

/// T5's bucket of the distance key - query, i64 [queries, keys]; query i stands at i + offset.
HEED_API Tensor t5_buckets(int64_t queries, int64_t keys, int64_t offset, bool bidirectional,
                           int64_t buckets, int64_t max_distance);
HEED_API int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets,
                           int64_t max_distance);
/// The bias [1, H, queries, keys] of a table [buckets, H]; has a gradient.
HEED_API Tensor t5_bias(const Tensor& table, int64_t queries, int64_t keys, int64_t offset,
                        bool bidirectional, int64_t max_distance = 128);

/// ALiBi (Press et al. 2022): slopes f32 [heads], and -slope · |i + offset - j| as
/// [1, heads, queries, keys].
HEED_API Tensor alibi_slopes(int64_t heads);
HEED_API Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, int64_t offset);

// Sparse and linear attention: time and memory grow with T, not with T².

/// Longformer: each query sees `window` / 2 keys a side and the global tokens; global tokens, as
/// queries with projections of their own, see everything.
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

/// BigBird: queries of block r see blocks r-1, r, r+1, the first, the last and `random_blocks`; the
/// first and last block see everything. Where T <= (5 + 2·random) · block_size all see all.
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

/// Performer (FAVOR+): softmax's kernel by positive random features. projection [m, D]. The causal
/// form lets no later key touch a row, its maximum included.
HEED_API Tensor performer_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& projection, bool causal,
                                    const Tensor& key_padding = {});
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
};
HEED_API Tensor swin_attention(const SwinInputs& inputs);

}  // namespace heed
