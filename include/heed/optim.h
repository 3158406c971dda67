#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace heed {

struct Parameter;

using NamedTensor = std::pair<std::string, Tensor>;
/// A model's or a scope's parameters as optimizers take them.
HEED_API std::vector<NamedTensor> named_tensors(const std::vector<Parameter>& parameters);

/// Parameters that share settings. Undefined settings are the optimizer's.
struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  std::optional<double> weight_decay;
  double lr_scale = 1.0;
};

/// Two groups: matrices decay, vectors and scalars (norms, biases) do not.
HEED_API std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters,
                                                  double weight_decay);

enum class OptimizerKind {
  sgd,    ///< momentum optional; decay is added to the gradient
  adam,   ///< decay is added to the gradient
  adamw,  ///< decay is taken off the weights directly
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;  ///< sgd
  bool nesterov = false;  ///< sgd
};

/// Updates parameters from their grad(), in one pass over parameter, gradient and state. A
/// parameter of f16 or bf16 has an f32 master copy here, and is rounded from it. Results do not
/// depend on the thread count.
class HEED_API Optimizer {
 public:
  Optimizer(std::vector<ParameterGroup> groups, const OptimizerOptions& options);
  Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerOptions& options);
  /// All parameters of a Scope or a Model.
  template <class P>
  requires std::is_same_v<P, Parameter>  // never from a list in braces, which names NamedTensors
  Optimizer(const std::vector<P>& parameters, const OptimizerOptions& options)
      : Optimizer(named_tensors(parameters), options) {}

  /// One update with gradients times `grad_scale` (clipping, loss scaling). Parameters without a
  /// gradient are left alone.
  void step(double grad_scale = 1.0);
  /// Drops all gradients.
  void zero_grad();
  /// Norm over all gradients, summed in a fixed order in f64; NaN or infinity where one is in
  /// there.
  double grad_norm() const;

  double lr() const { return options_.lr; }
  void set_lr(double lr);
  int64_t steps() const { return steps_; }
  const OptimizerOptions& options() const { return options_; }

  /// "step", and by parameter "exp_avg.<name>" and "exp_avg_sq.<name>" (adam, adamw),
  /// "momentum.<name>" (sgd), "master.<name>" (f16, bf16), and "step.<name>" where it was left out
  /// of some updates. The tensors share memory with the optimizer.
  std::map<std::string, Tensor, std::less<>> state() const;
  /// Copies a state back in; an unknown name or a wrong shape is an error that lists all of them.
  void load_state(const std::map<std::string, Tensor, std::less<>>& state);

 private:
  struct Slot {
    std::string name;
    Tensor value;
    double weight_decay = 0.0;
    double lr_scale = 1.0;
    int64_t steps = 0;
    Tensor first;   // mean of gradients, or momentum
    Tensor second;  // mean of squared gradients
    Tensor master;  // f32 weights behind f16 and bf16
  };
  void prepare(Slot& slot) const;

  OptimizerOptions options_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
};

/// Scales all gradients so that their global norm is at most `max_norm`; returns the norm before.
/// Optimizer::grad_norm() and step(grad_scale) do the same without a pass over memory. Nothing is
/// scaled where the norm is not finite.
HEED_API double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

enum class ScheduleKind { constant, cosine, linear, inverse_sqrt };
HEED_API ScheduleKind schedule_from_name(const std::string& name);
HEED_API const char* name_of(ScheduleKind kind);

/// The learning rate of an update: a linear warm-up to `peak`, then by kind.
struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 1e-3;
  int64_t warmup = 0;
  int64_t total = 0;   ///< updates of the run; cosine and linear end there
  double floor = 0.0;  ///< fraction of the peak that cosine and linear end at
  /// Of update number `step`, counted from 1.
  HEED_API double lr(int64_t step) const;
};

}  // namespace heed
