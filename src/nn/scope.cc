#include <cmath>
#include <set>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/nn.h"

namespace heed {

// Marked here and not in nn.h, which most files include: Init itself is no exported class.
Init Init::fan_in(int64_t in) { return uniform(1.0 / std::sqrt(static_cast<double>(in))); }

struct Scope::State {
  bool fresh = true;
  bool trainable = true;
  uint64_t seed = 0;
  TensorMap tensors;
  std::string file;
  std::function<std::string(const std::string&)> stored_name;  // empty: the same
  std::string prefix;                                          // optional in front of names
  std::vector<std::pair<std::string, std::string>> endings;    // ending, other ending
  std::vector<UnusedTensor> ignored;                           // patterns
  std::set<std::string, std::less<>> used;
  std::vector<std::string> missing;
  std::vector<std::string> misshapen;
  std::vector<Parameter> parameters;
  std::shared_ptr<ScopeAdapter> adapter;
  std::vector<AdaptedLayer> adapted;

  const TensorMap::value_type* find(const std::string& name) const {
    const auto* found = find_prefixed(name);
    for (const auto& [ending, other] : endings) {
      if (found == nullptr && name.ends_with(ending)) {
        found = find_prefixed(name.substr(0, name.size() - ending.size()) + other);
      }
    }
    return found;
  }

  const TensorMap::value_type* find_prefixed(const std::string& name) const {
    if (auto found = tensors.find(name); found != tensors.end()) {
      return &*found;
    }
    if (prefix.empty()) {
      return nullptr;
    }
    auto found = tensors.find(other_name(name));
    return found == tensors.end() ? nullptr : &*found;
  }

  /// With the optional prefix where `name` lacks it, without it where it is there.
  std::string other_name(const std::string& name) const {
    return name.starts_with(prefix) ? name.substr(prefix.size()) : prefix + name;
  }

  /// In errors.
  std::string shown(const std::string& name) const {
    return stored_name ? stored_name(name) : name;
  }

  /// The pattern that allows a tensor to be there without being read; null where there is none.
  const UnusedTensor* ignored_by(std::string_view name) const {
    for (const UnusedTensor& each : ignored) {
      const std::string_view pattern = each.name;
      if (pattern.starts_with('*') ? name.ends_with(pattern.substr(1)) : name == pattern) {
        return &each;
      }
    }
    return nullptr;
  }
};

namespace {

/// FNV-1a: a fresh value depends on its name, not on the order of construction.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  return hash;
}

Tensor initial(const Shape& shape, const Init& init, uint64_t seed, std::string_view name) {
  Tensor x = Tensor::empty(shape);
  if (init.kind == Init::Kind::constant) {
    x.fill(init.value);
    return x;
  }
  float* out = x.data<float>();
  constexpr int64_t kTile = 4096;
  parallel_ranges(x.numel(), kTile, [&](int64_t begin, int64_t end) {
    Random random(seed, hash_name(name));
    for (int64_t i = begin; i < end; ++i) {
      random.seek(static_cast<uint64_t>(i) * 4);
      out[i] = static_cast<float>(init.kind == Init::Kind::normal
                                      ? init.value * random.normal()
                                      : init.value * (2.0 * random.uniform() - 1.0));
    }
  });
  return x;
}

/// Zeros that take no memory, in place of a tensor that does not fit: construction goes on until
/// finish() lists them all.
Tensor placeholder(const Shape& shape) {
  Shape strides = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides[axis] = 0;
  }
  return Tensor::zeros({1}).alias(shape, strides, 0);
}

std::string join(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kShown ? fmt::format("{} and {} more", text, names.size() - kShown) : text;
}

}  // namespace

Scope::Scope(std::shared_ptr<State> state, std::string prefix)
    : state_(std::move(state)), prefix_(std::move(prefix)) {}

Scope Scope::fresh(uint64_t seed) {
  auto state = std::make_shared<State>();
  state->seed = seed;
  return Scope(std::move(state), "");
}

Scope Scope::loaded(TensorMap tensors, std::string file, bool trainable) {
  auto state = std::make_shared<State>();
  state->fresh = false;
  state->trainable = trainable;
  state->tensors = std::move(tensors);
  state->file = std::move(file);
  return Scope(std::move(state), "");
}

std::string Scope::path(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : fmt::format("{}.{}", prefix_, name);
}

void Scope::call_tensors(std::function<std::string(const std::string&)> stored_name) const {
  state_->stored_name = std::move(stored_name);
}

Scope Scope::operator/(std::string_view name) const { return Scope(state_, path(name)); }
Scope Scope::operator/(int64_t index) const { return *this / std::to_string(index); }

bool Scope::is_fresh() const { return state_->fresh; }
bool Scope::has(std::string_view name) const { return state_->find(path(name)) != nullptr; }

std::optional<Shape> Scope::shape_of(std::string_view name) const {
  const auto* found = state_->find(path(name));
  return found == nullptr ? std::nullopt : std::optional(found->second.shape());
}

void Scope::allow_prefix(std::string_view prefix) const { state_->prefix = prefix; }

void Scope::allow_ending(std::string_view ending, std::string_view other) const {
  state_->endings.emplace_back(ending, other);
}

void Scope::ignore(std::initializer_list<std::string_view> names, std::string_view reason,
                   bool recomputed) const {
  for (const std::string_view name : names) {
    state_->ignored.push_back({std::string(name), std::string(reason), recomputed});
  }
}

std::vector<UnusedTensor> Scope::unused() const {
  std::vector<UnusedTensor> found;
  for (const auto& [name, tensor] : state_->tensors) {
    const UnusedTensor* pattern = state_->used.contains(name) ? nullptr : state_->ignored_by(name);
    if (pattern != nullptr) {
      // Whole numbers are positions or masks: nothing that was learned.
      const bool learned = is_floating(tensor.dtype()) || is_quantized(tensor.dtype());
      found.push_back({name, pattern->reason, pattern->recomputed || !learned});
    }
  }
  return found;
}

void Scope::alias(std::string_view name) const {
  if (const auto* found = state_->find(path(name))) {
    state_->used.insert(found->first);
  }
}

Tensor Scope::parameter(std::string_view name, const Shape& shape, const Init& init) const {
  return take(name, shape, init, Use::parameter);
}

Tensor Scope::weight(std::string_view name, const Shape& shape, const Init& init) const {
  return take(name, shape, init, Use::weight);
}

Tensor Scope::buffer(std::string_view name, const Shape& shape, const Init& init) const {
  return take(name, shape, init, Use::buffer);
}

/// The parameter that an adapter holds whole; undefined where the checkpoint's own is used.
Tensor Scope::adapted_parameter(const std::string& full, const Shape& shape,
                                const Init& init) const {
  State& state = *state_;
  const auto* found = state.find(full);
  const bool stored = found != nullptr && found->second.shape() == shape;
  Tensor tensor = state.adapter->parameter(full, shape, stored, [&] {
    return stored ? dequantize(found->second).clone() : initial(shape, init, state.seed, full);
  });
  if (tensor.defined()) {
    if (found != nullptr) {
      state.used.insert(found->first);
    }
    state.parameters.push_back({full, tensor});
  }
  return tensor;
}

Tensor Scope::take(std::string_view name, const Shape& shape, const Init& init, Use use) const {
  State& state = *state_;
  const std::string full = path(name);
  Tensor tensor;
  if (state.adapter != nullptr && use != Use::buffer) {
    tensor = adapted_parameter(full, shape, init);
    if (tensor.defined()) {
      return tensor;
    }
  }
  if (state.fresh) {
    tensor = initial(shape, init, state.seed, full);
  } else {
    const auto* found = state.find(full);
    if (found == nullptr) {
      state.missing.push_back(fmt::format("{} {}", state.shown(full), shape.to_string()));
      return placeholder(shape);
    }
    state.used.insert(found->first);
    if (!(found->second.shape() == shape)) {
      state.misshapen.push_back(fmt::format("'{}' is {}, the configuration needs {}",
                                            state.shown(full), found->second.shape().to_string(),
                                            shape.to_string()));
      return placeholder(shape);
    }
    tensor = found->second;
    if (state.trainable) {
      // Contiguous, as the optimizer needs it: GGUF's matrices may be stored transposed.
      tensor = tensor.dtype() == DType::f32 ? tensor.clone() : dequantize(tensor).contiguous();
    } else if (use != Use::weight) {
      tensor = dequantize(tensor);
    }
    check_data(is_floating(tensor.dtype()) || is_quantized(tensor.dtype()), state.file,
               "tensor '{}' is {}; a floating type is wanted", state.shown(full),
               name_of(tensor.dtype()));
  }
  if ((state.fresh || state.trainable) && use != Use::buffer) {
    tensor.set_requires_grad(true);
  }
  state.parameters.push_back({full, tensor});
  return tensor;
}

void Scope::finish() const {
  const State& state = *state_;
  if (state.fresh) {
    return;
  }
  std::vector<std::string> extra;
  for (const auto& [name, tensor] : state.tensors) {
    if (!state.used.contains(name) && state.ignored_by(name) == nullptr) {
      extra.push_back(fmt::format("{} {}", state.shown(name), tensor.shape().to_string()));
    }
  }
  std::string text;
  auto add = [&text](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) {
      text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", names.size(), what, join(names));
    }
  };
  add("missing", state.missing);
  add("of the wrong shape", state.misshapen);
  add("that the model does not have", extra);
  check_data(text.empty(), state.file, "tensors do not fit the configuration: {}", text);
}

TensorMap Scope::tensors() const {
  TensorMap tensors;
  for (const Parameter& each : parameters()) {
    tensors.emplace(each.name, each.tensor);
  }
  return tensors;
}

ScopeAdapter::~ScopeAdapter() = default;

void Scope::adapt(std::shared_ptr<ScopeAdapter> adapter) const {
  state_->adapter = std::move(adapter);
}

LowRank Scope::low_rank(int64_t in, int64_t out, WeightLayout layout) const {
  State& state = *state_;
  if (state.adapter == nullptr) {
    return {};
  }
  LowRank update = state.adapter->low_rank(prefix_, in, out);
  if (!update.defined() && !state.prefix.empty()) {
    update = state.adapter->low_rank(state.other_name(prefix_), in, out);
  }
  if (update.defined()) {
    state.adapted.push_back({prefix_, update, layout});
  }
  return update;
}

const std::vector<AdaptedLayer>& Scope::adapted_layers() const { return state_->adapted; }

const std::vector<Parameter>& Scope::parameters() const { return state_->parameters; }

}  // namespace heed
