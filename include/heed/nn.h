#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/attention.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"

// Layers, and the Scope that gives them their parameters.

namespace heed {

// Parameters --------------------------------------------------------------------------------------
//
// Where layers get their parameters from: an initialiser or a checkpoint, and an adapter beside it.

/// How a fresh parameter starts.
struct Init {
  enum class Kind { constant, normal, uniform } kind = Kind::constant;
  double value = 0.0;  ///< the constant, the standard stddev, or the bound of [-value, value]

  static Init zeros() { return {Kind::constant, 0.0}; }
  static Init ones() { return {Kind::constant, 1.0}; }
  static Init normal(double stddev) { return {Kind::normal, stddev}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  /// PyTorch's default for Linear: uniform in ±1/sqrt(in).
  HEED_API static Init fan_in(int64_t in);
};

struct Parameter {
  std::string name;  ///< as in the checkpoint
  Tensor tensor;
};

/// A tensor of a checkpoint that the model does not read.
struct UnusedTensor {
  std::string name;
  std::string reason;       ///< "the pooler's layer, which only sequence heads read"
  bool recomputed = false;  ///< heed computes the same values itself (masks, position ids)
};

/// A low-rank update of a Linear layer (LoRA): `scale` · B · A is added to its matrix.
struct LowRank {
  Tensor a;            ///< [rank, in]
  Tensor b;            ///< [out, rank]
  double scale = 1.0;  ///< PEFT's lora_alpha / rank
  bool defined() const { return a.defined(); }
};

/// A Linear layer that an adapter changes.
struct AdaptedLayer {
  std::string name;  ///< of its parameters, without ".weight"
  LowRank update;
  WeightLayout layout = WeightLayout::out_in;
};

/// What an adapter adds to a checkpoint that stays as it is.
class HEED_API ScopeAdapter {
 public:
  virtual ~ScopeAdapter();
  /// The update of the Linear layer whose parameters are below `name`; undefined: none.
  virtual LowRank low_rank(const std::string& name, int64_t in, int64_t out) = 0;
  /// A parameter that the adapter holds whole (a classifier's head); undefined: the checkpoint's.
  /// `stored` says whether the checkpoint has it in this shape; `initial` gives that value, or a
  /// fresh one.
  virtual Tensor parameter(const std::string& name, const Shape& shape, bool stored,
                           const std::function<Tensor()>& initial) = 0;
};

/// Hands out parameters by the checkpoint's own names: from an initialiser, or from a file's
/// tensors. A fresh value depends on the seed and the name only. Copies share what they collected.
class HEED_API Scope {
 public:
  /// Fresh parameters that require gradients.
  static Scope fresh(uint64_t seed);
  /// Parameters from a file's tensors; `file` appears in errors. Where `trainable`, they are copied
  /// to f32 and require gradients; else matrices stay as they are stored, mapped and maybe
  /// quantised.
  static Scope loaded(TensorMap tensors, std::string file, bool trainable);

  /// What errors call a tensor, by its name here: what the file calls it.
  void call_tensors(std::function<std::string(const std::string&)> stored_name) const;

  /// Asks `adapter` for an update of every Linear layer that is made from now on.
  void adapt(std::shared_ptr<ScopeAdapter> adapter) const;
  /// The adapter's update of the Linear layer of this scope; undefined: none.
  LowRank low_rank(int64_t in, int64_t out, WeightLayout layout) const;
  /// The Linear layers that have one, in order.
  const std::vector<AdaptedLayer>& adapted_layers() const;

  /// The scope below: names get "name." in front.
  Scope operator/(std::string_view name) const;
  Scope operator/(int64_t index) const;
  std::string path(std::string_view name) const;

  /// A parameter in f32 (norms, biases, positions).
  Tensor parameter(std::string_view name, const Shape& shape, const Init& init) const;
  /// A matrix that linear() or an embedding reads: kept in its stored type where not trainable.
  Tensor weight(std::string_view name, const Shape& shape, const Init& init) const;

  /// A tensor that is stored with the parameters and takes no gradient.
  Tensor buffer(std::string_view name, const Shape& shape, const Init& init) const;

  bool is_fresh() const;
  /// Whether the file has this tensor (false for a fresh scope).
  bool has(std::string_view name) const;
  /// Shape of a tensor of the file, if it is there.
  std::optional<Shape> shape_of(std::string_view name) const;
  /// Names may come with or without this prefix ("transformer.").
  void allow_prefix(std::string_view prefix) const;
  /// Names that end in `ending` may come with another ending (old files: LayerNorm's gamma).
  void allow_ending(std::string_view ending, std::string_view other) const;
  /// Allows tensors that the model does not read: whole names, or endings that start with "*".
  /// Those that are there are listed by unused() with the reason; `recomputed` says that nothing is
  /// lost, because the model computes the same values itself.
  void ignore(std::initializer_list<std::string_view> names,
              std::string_view reason = "the model has no part for it",
              bool recomputed = false) const;
  /// The file's tensors that were ignored, by name.
  std::vector<UnusedTensor> unused() const;
  /// Marks a tensor as used under another name (tied weights that a file stores twice).
  void alias(std::string_view name) const;
  /// One error that lists every missing, extra and misshapen tensor.
  void finish() const;
  /// Everything handed out, in order.
  const std::vector<Parameter>& parameters() const;
  /// The same by name, for save_safetensors().
  TensorMap tensors() const;

 private:
  struct State;
  Scope(std::shared_ptr<State> state, std::string prefix);
  enum class Use { parameter, weight, buffer };
  Tensor take(std::string_view name, const Shape& shape, const Init& init, Use use) const;
  Tensor adapted_parameter(const std::string& full, const Shape& shape, const Init& init) const;

  std::shared_ptr<State> state_;
  std::string prefix_;
};

// Layers ------------------------------------------------------------------------------------------

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
  std::vector<int64_t> ends;    ///< where each sequence will end; empty: with these rows

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
  /// A base that grows with the sequence beyond `length` (dynamic NTK scaling).
  void set_dynamic(double theta, double factor, int64_t length);
  Tensor shifted(const Tensor& keys, int64_t positions) const;  ///< rotated keys, moved on
  bool defined() const { return tables_ != nullptr; }
  bool depends_on_length() const { return short_length_ > 0; }  ///< LongRoPE, dynamic scaling

 private:
  struct Tables;
  Tensor rotate(const Tensor& x, const Tensor& positions, int64_t length) const;

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

enum class SinusoidLayout {
  interleaved,   ///< sin, cos, sin, cos …
  concatenated,  ///< all sines, then all cosines
  tensor2tensor  ///< likewise, with wavelengths from 2 pi to exactly 10,000 x 2 pi
};
/// [positions, width] of sines and cosines, base 10,000.
HEED_API Tensor sinusoidal_positions(int64_t positions, int64_t width, SinusoidLayout layout);

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

}  // namespace heed
