#include "kernels/optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/nn.h"
#include "heed/ops.h"
#include "heed/train.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kTile = 16384;  // elements of one update: four f32 arrays of it fit in L2

DType compute_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

/// Squares of all gradients, tensor by tensor.
double sum_of_squares(const Tensor& gradient) {
  const Tensor g = gradient.contiguous();
  return dispatch_float(g.dtype(), "grad_norm", [&](auto tag) {
    using T = decltype(tag);
    return kernels::sum_of_squares(g.data<T>(), g.numel());
  });
}

void check_options(const OptimizerOptions& o) {
  const auto share = [](double value) { return value >= 0.0 && value < 1.0; };
  check(std::isfinite(o.lr) && o.lr >= 0.0, "optimizer", "learning rate {} is below 0", o.lr);
  check(share(o.beta1) && share(o.beta2), "optimizer", "betas {} and {} are not in [0, 1)", o.beta1,
        o.beta2);
  check(o.eps >= 0.0, "optimizer", "eps {} is below 0", o.eps);
  check(o.weight_decay >= 0.0, "optimizer", "weight decay {} is below 0", o.weight_decay);
  check(share(o.momentum), "optimizer", "momentum {} is not in [0, 1)", o.momentum);
}

}  // namespace

std::vector<NamedTensor> named_tensors(const std::vector<Parameter>& parameters) {
  std::vector<NamedTensor> named;
  named.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    named.emplace_back(parameter.name, parameter.tensor);
  }
  return named;
}

std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters,
                                         double weight_decay) {
  std::vector<ParameterGroup> groups(2);
  groups[0].weight_decay = weight_decay;
  groups[1].weight_decay = 0.0;
  for (const NamedTensor& parameter : parameters) {
    groups[parameter.second.rank() >= 2 ? 0 : 1].parameters.push_back(parameter);
  }
  return groups;
}

Optimizer::Optimizer(std::vector<ParameterGroup> groups, const OptimizerOptions& options)
    : options_(options) {
  check_options(options);
  std::unordered_set<std::string> names;
  for (ParameterGroup& group : groups) {
    for (NamedTensor& parameter : group.parameters) {
      const auto& [name, value] = parameter;
      check(value.defined() && is_floating(value.dtype()) && value.is_contiguous(), "optimizer",
            "parameter '{}' must be a contiguous floating tensor", name);
      check(names.insert(name).second, "optimizer", "parameter '{}' is there twice", name);
      Slot slot;
      slot.name = std::move(parameter.first);
      slot.value = std::move(parameter.second);
      slot.weight_decay = group.weight_decay.value_or(options.weight_decay);
      slot.lr_scale = group.lr_scale;
      slots_.push_back(std::move(slot));
    }
  }
}

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerOptions& options)
    : Optimizer(std::vector{ParameterGroup{parameters, std::nullopt, 1.0}}, options) {}

void Optimizer::set_lr(double lr) {
  check(std::isfinite(lr) && lr >= 0.0, "optimizer", "learning rate {} is below 0", lr);
  options_.lr = lr;
}

/// Makes what a parameter's first update needs.
void Optimizer::prepare(Slot& slot) const {
  const DType type = compute_type(slot.value.dtype());
  if (!slot.master.defined() && type != slot.value.dtype()) {
    slot.master = slot.value.to(type);
  }
  const bool averages = options_.kind != OptimizerKind::sgd;
  if (!slot.first.defined() && (averages || options_.momentum != 0.0)) {
    slot.first = Tensor::zeros(slot.value.shape(), type);
  }
  if (!slot.second.defined() && averages) {
    slot.second = Tensor::zeros(slot.value.shape(), type);
  }
}

void Optimizer::step(double grad_scale) {
  struct Update {
    Slot* slot;
    Tensor gradient;
    int64_t first_tile;
  };
  std::vector<Update> updates;
  int64_t tiles = 0;
  for (Slot& slot : slots_) {
    const Tensor gradient = slot.value.grad();
    if (!gradient.defined() || slot.value.numel() == 0) {
      continue;
    }
    check(gradient.dtype() == slot.value.dtype(), "optimizer", "'{}' is {}, its gradient {}",
          slot.name, name_of(slot.value.dtype()), name_of(gradient.dtype()));
    prepare(slot);
    ++slot.steps;
    slot.value.bump_version();
    updates.push_back({&slot, gradient.contiguous(), tiles});
    tiles += (slot.value.numel() + kTile - 1) / kTile;
  }
  ++steps_;
  // One loop over the tiles of all parameters, so that small ones cost no loop of their own.
  parallel_for(tiles, [&](int64_t tile) {
    const auto after = std::upper_bound(
        updates.begin(), updates.end(), tile,
        [](int64_t wanted, const Update& update) { return wanted < update.first_tile; });
    const Update& update = *std::prev(after);
    const Slot& slot = *update.slot;
    const int64_t at = (tile - update.first_tile) * kTile;
    const int64_t count = std::min(kTile, slot.value.numel() - at);
    const double lr = options_.lr * slot.lr_scale;
    dispatch_float(slot.value.dtype(), "optimizer", [&](auto tag) {
      using T = decltype(tag);
      using C = kernels::Compute<T>;
      T* value = slot.value.data<T>() + at;
      C* master = (slot.master.defined() ? slot.master : slot.value).template data<C>() + at;
      const T* gradient = update.gradient.data<T>() + at;
      if (options_.kind == OptimizerKind::sgd) {
        C* velocity = slot.first.defined() ? slot.first.data<C>() + at : nullptr;
        kernels::sgd_range(
            master, value, velocity, gradient,
            {lr, options_.momentum, options_.nesterov, slot.weight_decay, grad_scale}, count);
        return;
      }
      const auto t = static_cast<double>(slot.steps);
      const kernels::AdamStep step{lr,
                                   options_.beta1,
                                   options_.beta2,
                                   options_.eps,
                                   slot.weight_decay,
                                   options_.kind == OptimizerKind::adamw,
                                   1.0 - std::pow(options_.beta1, t),
                                   1.0 - std::pow(options_.beta2, t),
                                   grad_scale};
      kernels::adam_range(master, value, slot.first.data<C>() + at, slot.second.data<C>() + at,
                          gradient, step, count);
    });
  });
}

void Optimizer::zero_grad() {
  for (Slot& slot : slots_) {
    slot.value.set_grad(Tensor());
  }
}

double Optimizer::grad_norm() const {
  double sum = 0.0;
  for (const Slot& slot : slots_) {
    if (slot.value.grad().defined()) {
      sum += sum_of_squares(slot.value.grad());
    }
  }
  return std::sqrt(sum);
}

std::map<std::string, Tensor, std::less<>> Optimizer::state() const {
  std::map<std::string, Tensor, std::less<>> state;
  const auto add = [&](const char* kind, const Slot& slot, const Tensor& tensor) {
    if (tensor.defined()) {
      state.emplace(std::string(kind) + "." + slot.name, tensor);
    }
  };
  state.emplace("step", Tensor::from({steps_}, {}));
  const bool averages = options_.kind != OptimizerKind::sgd;
  for (const Slot& slot : slots_) {
    add(averages ? "exp_avg" : "momentum", slot, slot.first);
    add("exp_avg_sq", slot, slot.second);
    add("master", slot, slot.master);
    if (slot.steps != steps_) {
      add("step", slot, Tensor::from({slot.steps}, {}));
    }
  }
  return state;
}

void Optimizer::load_state(const std::map<std::string, Tensor, std::less<>>& state) {
  std::vector<std::string> wrong;
  size_t used = 0;
  const auto read_count = [&](const std::string& name, int64_t otherwise) {
    const auto found = state.find(name);
    if (found == state.end()) {
      return otherwise;
    }
    ++used;
    if (found->second.numel() != 1) {
      wrong.push_back(name);
      return otherwise;
    }
    return static_cast<int64_t>(found->second.item());
  };
  check(state.contains("step"), "optimizer", "the state has no 'step'");
  const int64_t steps = read_count("step", 0);
  const bool averages = options_.kind != OptimizerKind::sgd;
  std::vector<Slot> slots = slots_;
  for (Slot& slot : slots) {
    const auto read = [&](const char* kind, Tensor& into) {
      const auto found = state.find(std::string(kind) + "." + slot.name);
      if (found == state.end()) {
        into = Tensor();
        return;
      }
      ++used;
      if (found->second.shape() != slot.value.shape()) {
        wrong.push_back(found->first + " " + found->second.shape().to_string());
      } else {
        into = Tensor::empty(slot.value.shape(), compute_type(slot.value.dtype()));
        into.copy_from(found->second);
      }
    };
    slot.steps = read_count("step." + slot.name, steps);
    read(averages ? "exp_avg" : "momentum", slot.first);
    if (averages) {
      read("exp_avg_sq", slot.second);
    }
    if (compute_type(slot.value.dtype()) != slot.value.dtype()) {
      read("master", slot.master);
    }
  }
  check(wrong.empty(), "optimizer", "state does not fit the parameters: {}",
        fmt::join(wrong, ", "));
  check(used == state.size(), "optimizer",
        "{} of {} tensors of the state belong to no parameter here", state.size() - used,
        state.size());
  slots_ = std::move(slots);
  steps_ = steps;
}

double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  check(max_norm > 0.0, "clip_grad_norm", "norm {} is not above 0", max_norm);
  double sum = 0.0;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) {
      sum += sum_of_squares(parameter.grad());
    }
  }
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm) || norm <= max_norm) {
    return norm;
  }
  for (const Tensor& parameter : parameters) {
    Tensor gradient = parameter.grad();
    if (gradient.defined()) {
      gradient.bump_version();
      dispatch_float(gradient.dtype(), "clip_grad_norm", [&](auto tag) {
        using T = decltype(tag);
        kernels::scale_shift(gradient.data<T>(), gradient.data<T>(), max_norm / norm, 0.0,
                             gradient.numel());
      });
    }
  }
  return norm;
}

}  // namespace heed
