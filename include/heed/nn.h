#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/attention.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/random.h"
#include "heed/scope.h"
#include "heed/tensor.h"

// Layers; a Scope (heed/scope.h) gives them their parameters.

namespace heed {

class HEED_API Linear {
 public:
  struct Options {
    bool bias = true;
    WeightLayout layout = WeightLayout::out_in;
    std::optional<Init> init = {};  ///< of the weight; default Init::fan_in
    std::optional<Init> bias_init =
        {};  ///< default: zeros where `init` is given, else Init::fan_in
  };
  Linear() = default;
  Linear(const Scope& scope, int64_t in, int64_t out, const Options& options);
  Linear(const Scope& scope, int64_t in, int64_t out) : Linear(scope, in, out, Options()) {}
  /// A layer over weights that exist already (tied heads).
  Linear(Tensor weight, Tensor bias, WeightLayout layout = WeightLayout::out_in);

  Tensor operator()(const Tensor& x, Activation activation = Activation::none,
                    const Tensor& residual = {}) const;
  bool defined() const { return weight_.defined(); }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }
  WeightLayout layout() const { return layout_; }
  /// An adapter's update; may be undefined.
  const LowRank& low_rank() const { return low_rank_; }
  /// The layer that computes outputs [begin, end) of this one, whose matrix must be [out, in].
  Linear outputs(int64_t begin, int64_t end) const;

 private:
  Tensor weight_, bias_;
  LowRank low_rank_;
  WeightLayout layout_ = WeightLayout::out_in;
};

/// Calls `watch` with the weight and the input [..., in] of every Linear layer that runs in this
/// thread while it is in scope.
class HEED_API LinearInputScope {
 public:
  using Watch = std::function<void(const Tensor& weight, const Tensor& input)>;
  explicit LinearInputScope(Watch watch);
  ~LinearInputScope();
  LinearInputScope(const LinearInputScope&) = delete;
  LinearInputScope& operator=(const LinearInputScope&) = delete;

 private:
  Watch watch_;
  const Watch* before_;
};

/// LayerNorm or RMSNorm over the last axis.
class HEED_API Norm {
 public:
  enum class Kind { layer, rms };
  struct Options {
    double eps = 1e-5;
    Kind kind = Kind::layer;
    bool bias = true;          ///< of LayerNorm
    bool affine = true;        ///< false: no weight and no bias
    bool unit_offset = false;  ///< multiplies by 1 + weight, which starts at 0 (Gemma)
  };
  Norm() = default;
  Norm(const Scope& scope, int64_t size, const Options& options);
  Norm(const Scope& scope, int64_t size, double eps, Kind kind = Kind::layer, bool bias = true);
  Tensor operator()(const Tensor& x) const;
  bool defined() const { return weight_.defined(); }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }
  const Options& options() const { return options_; }

 private:
  Tensor weight_, bias_;
  Options options_;
};

/// Rows of a table by id, as f32 whatever the table's type.
class HEED_API Embedding {
 public:
  Embedding() = default;
  /// Starts as GPT-2's: normal, with a standard deviation of 0.02.
  Embedding(const Scope& scope, int64_t count, int64_t hidden_size)
      : Embedding(scope, count, hidden_size, Init::normal(0.02)) {}
  Embedding(const Scope& scope, int64_t count, int64_t width, const Init& init);
  /// Looking up `padding` gives no gradient, as with PyTorch's padding_idx.
  Embedding(const Scope& scope, int64_t count, int64_t width, const Init& init,
            std::optional<int64_t> padding);
  explicit Embedding(Tensor weight) : weight_(std::move(weight)) {}
  Tensor operator()(const Tensor& ids) const;
  const Tensor& weight() const { return weight_; }
  bool defined() const { return weight_.defined(); }

 private:
  Tensor weight_;
  std::optional<int64_t> padding_;
};

/// How rows [N, hidden_size] are divided into sequences. Layers work on rows, so that padding need
/// not be computed and sequences of any length, each with a cache of its own, go through together.
struct HEED_API Layout {
  int64_t batch = 0;
  int64_t length = 0;           ///< of every sequence where `starts` is empty
  std::vector<int64_t> starts;  ///< first row of each sequence, and N
  Tensor key_padding;           ///< [batch, length] u8, 1 = real; for equal lengths only

  static Layout equal(int64_t batch, int64_t length, Tensor key_padding = {});
  static Layout ragged(const std::vector<int64_t>& lengths);
  int64_t rows() const { return starts.empty() ? batch * length : starts.back(); }
  bool is_ragged() const { return !starts.empty(); }
  int64_t start(int64_t sequence) const {
    return starts.empty() ? sequence * length : starts[static_cast<size_t>(sequence)];
  }
  int64_t length_of(int64_t sequence) const { return start(sequence + 1) - start(sequence); }
};

/// Rotary position embeddings. The tables of cos and sin [positions, width/2] grow on demand.
class HEED_API Rotary {
 public:
  Rotary() = default;
  Rotary(int64_t width, int64_t positions, double theta, bool interleaved = false);
  /// The angle per position of each pair. `scale` multiplies cosines and sines (YaRN, LongRoPE).
  Rotary(const std::vector<double>& frequencies, int64_t positions, bool interleaved = false,
         double scale = 1.0);
  /// Rotates x [N, heads, head_dim] by the position of each row. With fewer frequencies than
  /// head_dim / 2 only the first columns are rotated.
  Tensor operator()(const Tensor& x, const Tensor& positions) const;
  /// The same for rows of sequences, which may be of different lengths.
  Tensor operator()(const Tensor& x, const Tensor& positions, const Layout& layout) const;
  /// Other frequencies for sequences longer than `length` (LongRoPE).
  void set_long(const std::vector<double>& frequencies, int64_t length);
  Tensor shifted(const Tensor& keys, int64_t positions) const;  ///< rotated keys, moved on
  bool defined() const { return tables_ != nullptr; }
  bool depends_on_length() const { return longer_ != nullptr; }  ///< LongRoPE's angles do

 private:
  struct Tables;
  Tensor rotate(const Tensor& x, const Tensor& positions, Tables& tables) const;

  std::shared_ptr<Tables> tables_, longer_;
  int64_t short_length_ = 0;
  bool interleaved_ = false;
};

/// What a sliding cache keeps: the first `sinks` positions and the last `recent` ones (0: all).
struct KvWindow {
  int64_t recent = 0, sinks = 4;
  bool on() const { return recent > 0; }
};

/// Keys and values of one sequence in one layer. Memory for `capacity` positions is reserved once
/// and touched as it fills, so growing copies nothing. With a `window` it keeps only the last
/// `window` positions, plus one chunk. Stored as f32, f16, bf16 or q8_0; q8_0 needs widths that are
/// multiples of 32.
class HEED_API KvCache {
 public:
  KvCache() = default;
  KvCache(int64_t heads, int64_t capacity, int64_t key_width, int64_t value_width,
          int64_t window = 0, DType type = DType::f32);
  /// Attention sinks (StreamingLLM): keeps the first positions and the last ones, however many
  /// come. The first ones pretend to stand right before the others: their keys are moved on by
  /// `rotary`, which may be undefined. One append() that gives positions up takes at most
  /// `window.recent`. For an empty cache without a window of its own.
  void keep_sinks(const KvWindow& window, Rotary rotary);
  /// Appends keys and values [heads, count, width]. Throws `Error` if the capacity is exceeded.
  void append(const Tensor& k, const Tensor& v);
  Tensor keys() const;  ///< [1, heads, length - first, width], a view
  Tensor values() const;
  DType dtype() const { return k_.dtype(); }
  int64_t length() const { return length_; }  ///< positions seen
  /// Forgets the positions from `length` on. Throws `Error` where they are not all stored.
  void truncate(int64_t length);
  /// The first position that is still stored: a multiple of the attention kernel's tile, so that
  /// sums are added in the same order as with a full cache. With sinks, where the first of them
  /// pretends to stand.
  int64_t first() const { return first_; }
  KvCache copy() const;
  bool defined() const { return k_.defined(); }
  /// Bytes that a sequence of `length` positions takes.
  int64_t bytes_for(int64_t length) const;

 private:
  void make_room(int64_t count);
  void slide(int64_t count);
  int64_t row(int64_t position) const { return begin_ + position - first_; }

  Tensor k_, v_;
  int64_t capacity_ = 0, window_ = 0, first_ = 0, length_ = 0;
  int64_t begin_ = 0;  // row of the first stored position; 0 without sinks
  KvWindow kept_;
  Rotary rotary_;
  Tensor sink_keys_, sink_values_;  // [sinks, heads, width] as they came; once positions are lost
};

/// Caches of one sequence in all layers: self-attention, and for a decoder the encoder's keys and
/// values, computed once.
struct HEED_API SequenceCache {
  std::vector<KvCache> self;
  std::vector<KvCache> cross;
  std::vector<Tensor> state;  ///< of a recurrent decoder, [1, hidden] each; replaced, never written
  int64_t length = 0;         ///< positions seen so far
  SequenceCache copy() const;
  /// Forgets the positions from `length` on, in every layer. Throws `Error` where a layer cannot.
  void truncate(int64_t length);
};

/// What a layer needs to know about the current forward pass.
struct Pass {
  Layout layout;
  bool training = false;
  std::vector<SequenceCache*> caches;             ///< one per sequence, or empty
  const Tensor* encoder_hidden_states = nullptr;  ///< rows of the encoder's output
  const Layout* encoder_layout = nullptr;
  Tensor bias;  ///< added to the scores of self-attention without caches (T5), [1, H, T, T]
  std::vector<Tensor> cached_bias;  ///< likewise with caches, one per sequence: [1, H, Tq, Tk]

  Tensor global_rows;  ///< u8 [rows], 1 = attends to all and is seen by all (Longformer)

  int64_t first_example = 0;  ///< index of the first sequence in the whole batch, for dropout

  /// Position of each row in its sequence (cached length included), i64 [rows].
  HEED_API Tensor positions() const;
  /// Dropout of rows [N, …] of this pass (or of one row per sequence), where it is training.
  HEED_API Tensor dropout(const Tensor& x, double p) const;
};

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

class HEED_API FeedForward {
 public:
  FeedForward() = default;
  FeedForward(Linear up, Linear down, Activation activation, double activation_dropout = 0.0);
  /// activate(gate(x)) * up(x), then down.
  FeedForward(Linear gate, Linear up, Linear down, Activation activation,
              double activation_dropout = 0.0);
  /// One projection to gate | up.
  static FeedForward fused_gate(Linear gate_up, Linear down, Activation activation,
                                double activation_dropout = 0.0);
  Tensor operator()(const Tensor& x, const Pass& pass, const Tensor& residual = {}) const;

 private:
  Linear gate_, up_, down_, gate_up_;
  Activation activation_ = Activation::relu;
  double activation_dropout_ = 0.0;
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

enum class SinusoidLayout {
  interleaved,   ///< sin, cos, sin, cos …
  concatenated,  ///< all sines, then all cosines
  tensor2tensor  ///< likewise, with wavelengths from 2 pi to exactly 10,000 x 2 pi
};
/// [positions, width] of sines and cosines, base 10,000.
HEED_API Tensor sinusoidal_positions(int64_t positions, int64_t width, SinusoidLayout layout);

}  // namespace heed
