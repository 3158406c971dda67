#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io.h"
#include "heed/ops.h"
#include "heed/tensor.h"

// Where layers get their parameters from: an initialiser or a checkpoint, and an adapter beside it.

namespace heed {

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

}  // namespace heed
