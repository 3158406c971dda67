#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "heed/runtime.h"
#include "heed/tensor.h"

namespace heed {

/// Which keys a query may attend to, by position. Query i is at position i + offset of the keys.
struct NoMask {
  bool operator==(const NoMask&) const = default;
};
struct Causal {
  int64_t offset = 0;  ///< 0: top-left (PyTorch's is_causal); T_k - T_q: bottom-right (a cache)
  bool operator==(const Causal&) const = default;
};
/// i + offset - left <= j <= i + offset + right; -1: no limit on that side. The first `prefix` keys
/// are visible to all queries (global tokens, attention sinks).
struct Window {
  int64_t left = -1;
  int64_t right = -1;
  int64_t offset = 0;
  int64_t prefix = 0;
  bool operator==(const Window&) const = default;
};
using PositionMask = std::variant<NoMask, Causal, Window>;

/// Which keys each query attends to, and what is added to its scores, where a tensor over all pairs
/// would be too large: windows with global tokens, blocks, random features. It is read a part at a
/// time.
class HEED_API ScorePattern {
 public:
  virtual ~ScorePattern();
  /// What is added to the scaled scores of the queries `rows` and the keys [key_begin, key_end) of
  /// one head, f32 [rows, keys]: -infinity where a query does not attend to a key. Undefined where
  /// none of these queries attends to any of these keys.
  virtual Tensor part(int64_t batch, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
                      int64_t key_end) const = 0;
  /// About how many multiplications one element of part() costs; 0 unless told.
  virtual int64_t products() const;
};

enum class AttentionKernel {
  automatic,  ///< the fastest one that fits
  reference,  ///< the formula in plain steps; holds the whole matrix
  chunked,    ///< the formula for a chunk of queries at a time
  flash,      ///< tiles with an online softmax; no T×T buffer
};

struct AttentionOptions {
  PositionMask position = NoMask{};
  Tensor mask;         ///< bool or u8, true = attend; broadcastable to [B, Hq, Tq, Tk]
  Tensor bias;         ///< floating, added to the scaled scores, has a gradient; broadcastable
  Tensor key_padding;  ///< bool or u8 [B, Tk], true = real
  /// Beside mask and bias; a few queries of it are written out at a time. Takes no dropout.
  std::shared_ptr<const ScorePattern> pattern;
  std::optional<double> scale;  ///< default 1/sqrt(D)
  double softcap = 0.0;  ///< s -> softcap * tanh(s / softcap) where > 0, before masks and bias
  double dropout = 0.0;  ///< on the weights
  bool training = false;
  int64_t first_example = 0;  ///< index of the first sequence in the whole batch, for dropout
  AttentionKernel kernel = AttentionKernel::automatic;
  int64_t chunk = 128;  ///< queries at a time of the chunked kernel
};

/// Computes scaled dot-product attention without materialising the score matrix.
///
/// `q` is [B, Hq, Tq, D], `k` [B, Hkv, Tk, D] and `v` [B, Hkv, Tk, Dv], where Hq must be a multiple
/// of Hkv; the result is [B, Hq, Tq, Dv]. All three may instead be [B, T, D] (one head) or [T, D]
/// (one head of one sequence): the result then has the same rank, masks may be [B, Tq, Tk] or
/// [Tq, Tk], and key_padding [Tk] where there is no batch. A query that may attend to no key yields
/// zeros, in the output and in the gradient. Masked keys never enter a result, so a NaN in them
/// does not leak. Throws `Error` if the shapes do not fit.
HEED_API Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options = {});

/// Computes attention within each of several sequences of different lengths, without padding.
///
/// The sequences are concatenated along the rows of `q` [N, Hq, D], `k` [M, Hkv, D] and `v`
/// [M, Hkv, Dv]; the result is [N, Hq, Dv]. `query_starts` and `key_starts` hold the first row of
/// each sequence, followed by the number of rows. Every sequence gets, bit for bit, what
/// attention() computes for it alone. Supports every option except masks and bias. Always uses the
/// flash kernel and does not notify observers.
HEED_API Tensor ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 std::span<const int64_t> query_starts,
                                 std::span<const int64_t> key_starts,
                                 const AttentionOptions& options = {});

/// The intermediate results of the formula, each [B, Hq, Tq, Tk] except the output.
struct AttentionSteps {
  Tensor scores;   ///< q·kᵀ
  Tensor scaled;   ///< × scale (and soft-capped)
  Tensor masked;   ///< + bias, -inf where masked
  Tensor weights;  ///< softmax; zeros in a fully masked row
  Tensor output;
  Tensor lse;  ///< [B, Hq, Tq]: log of the sum of exponentials; -inf in a fully masked row
};
/// Computes every step of the formula, without a gradient and without dropout.
HEED_API AttentionSteps attention_steps(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const AttentionOptions& options = {});

/// One attention call as the fast path computed it: enough to recompute any part of its weights
/// exactly.
struct AttentionRecord {
  Tensor q, k, v;
  Tensor output;
  AttentionOptions options;
  Tensor row_max;      ///< [B, Hq, Tq]: largest score in units of log2; 0 in a fully masked row
  Tensor row_inverse;  ///< [B, Hq, Tq]: 1 / Σ 2^(score - row_max); 0 in a fully masked row
  Tensor global_rows;  ///< u8 [B, Tq], 1: the row reads global_v (Longformer); undefined: none does
  Tensor global_v;     ///< as v

  /// The values [B, Hkv, Tk, Dv] that a row reads.
  HEED_API const Tensor& values_of(int64_t batch, int64_t row) const;

  /// [B, Hq, Tq]: log of the sum of exponentials; -inf in a fully masked row.
  HEED_API Tensor lse() const;

  /// Rows [row_begin, row_end) and keys [key_begin, key_end) of one head as a record of its own,
  /// whose q is [1, 1, rows, D]; its pattern is written out as mask and bias.
  HEED_API AttentionRecord part(int64_t batch, int64_t head, int64_t row_begin, int64_t row_end,
                                int64_t key_begin, int64_t key_end) const;
  /// Weights of rows [row_begin, row_end) and keys [key_begin, key_end) of one head, before
  /// dropout.
  HEED_API Tensor weights(int64_t batch, int64_t head, int64_t row_begin, int64_t row_end,
                          int64_t key_begin, int64_t key_end) const;
  /// All weights of one head [Tq, Tk], or of all [B, Hq, Tq, Tk].
  HEED_API Tensor weights(int64_t batch, int64_t head) const;
  HEED_API Tensor all_weights() const;
};

/// Receives what models compute while it is in scope. Without an observer nothing is stored and
/// nothing slows down; a model that is observed computes the same bits, unless the observer itself
/// changes an activation or the options of an attention. What is computed in f16 or bf16 is passed
/// on in f32.
class HEED_API Observer {
 public:
  Observer();
  virtual ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Called for an activation by its hook name ("blocks.0.attn.hook_q"). The model continues with
  /// the returned tensor, which is how heads are ablated. Called only if wants(name).
  virtual Tensor activation(const std::string& name, const Tensor& value);
  virtual bool wants(const std::string& name);
  /// Called after each attention of the model, with its hook name ("blocks.0.attn").
  virtual void attention(const std::string& name, const AttentionRecord& record);
  /// May change the options of an attention before it runs, for example to disable the causal mask.
  virtual void adjust(const std::string& name, AttentionOptions& options);

  /// The innermost one in scope on this thread, or null.
  static Observer* current();
  /// activation() with the value in f32, and its result in the value's own type.
  Tensor show(const std::string& name, const Tensor& value);

 private:
  Observer* outer_;
};

/// Prefixes the hook names below it: `HookScope hook_scope("blocks.0");` makes "attn" report as
/// "blocks.0.attn". Costs nothing if no Observer is in scope.
class HEED_API HookScope {
 public:
  explicit HookScope(const char* name, int64_t index = -1);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
  /// "blocks.0.attn" + "." + name
  static std::string path(const char* name = "");

 private:
  bool active_;
  size_t length_ = 0;
};

/// Passes an activation to the observer in scope, if any, and returns the tensor to continue with.
inline Tensor observe(const char* name, const Tensor& value) {
  Observer* observer = Observer::current();
  if (observer == nullptr) {
    return value;
  }
  const std::string path = HookScope::path(name);
  return observer->wants(path) ? observer->show(path, value) : value;
}

// Variants of attention ---------------------------------------------------------------------------
//
// As functions of their weights. q, k and v are [B, H, T, D]; masks, padding
// and dropout come from AttentionOptions and mean what they mean for attention(). Those that form
// a matrix of weights report it to the Observer in scope like attention() does.

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
/// The bias [1, H, queries, keys] of a table [buckets, H], f32 unless the table is f64; has a
/// gradient. A view in which every diagonal is one number: read it only.
HEED_API Tensor t5_bias(const Tensor& table, int64_t queries, int64_t keys, int64_t offset,
                        bool bidirectional, int64_t max_distance = 128);

/// DeBERTa's disentangled scores (He et al. 2021): content to position and position to content.
/// `key` and `query` (either may be undefined) are tables [rows, H, D]; element d + T - 1 of
/// `key_rows` and `query_rows`, i64 [2T-1], is the row that stands for the distance d, which is
/// key - query for `key` and query - key for `query`.
struct DisentangledPositions {
  Tensor key, query;
  Tensor key_rows, query_rows;
};
/// As a bias [B, H, T, T] for q and k [B, H, T, D]; has a gradient.
HEED_API Tensor disentangled_bias(const Tensor& q, const Tensor& k,
                                  const DisentangledPositions& positions, double scale);
/// The same numbers without a tensor over all pairs and without a gradient, for long sequences: it
/// holds the products of one head with the tables.
HEED_API std::shared_ptr<const ScorePattern> disentangled_pattern(
    const Tensor& q, const Tensor& k, const DisentangledPositions& positions, double scale);

/// ALiBi (Press et al. 2022): slopes f32 [heads], and -slope · |i + offset - j| as
/// [1, heads, queries, keys], a view like t5_bias().
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

}  // namespace heed
