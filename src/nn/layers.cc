#include "base/check.h"
#include "heed/nn.h"
#include "heed/ops.h"

namespace heed {
namespace {
thread_local const LinearInputScope::Watch* g_watch = nullptr;
}  // namespace

LinearInputScope::LinearInputScope(Watch watch) : watch_(std::move(watch)), before_(g_watch) {
  g_watch = &watch_;
}
LinearInputScope::~LinearInputScope() { g_watch = before_; }

Linear::Linear(const Scope& scope, int64_t in, int64_t out, const Options& options)
    : layout_(options.layout) {
  const Shape shape = layout_ == WeightLayout::out_in ? Shape{out, in} : Shape{in, out};
  weight_ = scope.weight("weight", shape, options.init.value_or(Init::fan_in(in)));
  if (options.bias) {
    const Init fallback = options.init ? Init::zeros() : Init::fan_in(in);
    bias_ = scope.parameter("bias", {out}, options.bias_init.value_or(fallback));
  }
  low_rank_ = scope.low_rank(in, out, layout_);
}

Linear::Linear(Tensor weight, Tensor bias, WeightLayout layout)
    : weight_(std::move(weight)), bias_(std::move(bias)), layout_(layout) {}

Tensor Linear::operator()(const Tensor& x, Activation activation, const Tensor& residual) const {
  if (g_watch != nullptr) {
    (*g_watch)(weight_, x);
  }
  if (is_quantized(weight_.dtype()) && reads_unrounded_inputs()) {
    // Blocks lie along the inputs: as [in, out] the weight is a transposed view of them.
    const bool view = layout_ == WeightLayout::in_out;
    const Tensor rows = dequantize(view ? transpose(weight_) : weight_);
    Linear plain(view ? transpose(rows) : rows, bias_, layout_);
    plain.low_rank_ = low_rank_;
    return plain(x, activation, residual);
  }
  if (!low_rank_.defined()) {
    return linear(x, weight_, bias_, {layout_, activation, residual});
  }
  const Tensor update = linear(mul(linear(x, low_rank_.a, {}), low_rank_.scale), low_rank_.b, {});
  if (activation == Activation::none) {
    return linear(x, weight_, bias_,
                  {layout_, activation, residual.defined() ? add(update, residual) : update});
  }
  const Tensor y =
      activate(linear(x, weight_, bias_, {layout_, Activation::none, update}), activation);
  return residual.defined() ? add(y, residual) : y;
}

Linear Linear::outputs(int64_t begin, int64_t end) const {
  check(layout_ == WeightLayout::out_in, "linear", "only a matrix [out, in] can be divided");
  Linear part(slice(weight_, 0, begin, end), bias_.defined() ? slice(bias_, 0, begin, end) : bias_);
  if (low_rank_.defined()) {
    part.low_rank_ = {low_rank_.a, slice(low_rank_.b, 0, begin, end), low_rank_.scale};
  }
  return part;
}

Norm::Norm(const Scope& scope, int64_t size, const Options& options) : options_(options) {
  if (!options.affine) {
    weight_ = Tensor::full({size}, options.unit_offset ? 0.0 : 1.0);
    return;
  }
  weight_ = scope.parameter("weight", {size}, options.unit_offset ? Init::zeros() : Init::ones());
  if (options.bias && options.kind == Kind::layer) {
    bias_ = scope.parameter("bias", {size}, Init::zeros());
  }
}

Norm::Norm(const Scope& scope, int64_t size, double eps, Kind kind, bool bias)
    : Norm(scope, size, {.eps = eps, .kind = kind, .bias = bias}) {}

Tensor Norm::operator()(const Tensor& x) const {
  const Tensor weight = cast(options_.unit_offset ? add(weight_, 1.0) : weight_, x.dtype());
  if (options_.kind != Kind::layer) {
    return rms_norm(x, weight, options_.eps);
  }
  return layer_norm(x, weight, bias_.defined() ? cast(bias_, x.dtype()) : bias_, options_.eps);
}

Embedding::Embedding(const Scope& scope, int64_t count, int64_t width, const Init& init)
    : weight_(scope.weight("weight", {count, width}, init)) {}

Embedding::Embedding(const Scope& scope, int64_t count, int64_t width, const Init& init,
                     std::optional<int64_t> padding)
    : Embedding(scope, count, width, init) {
  padding_ = padding;
}

namespace {

/// 1 where an id is `padding`, [..., 1]; undefined where none is.
Tensor padding_places(const Tensor& ids, int64_t padding) {
  const std::vector<int64_t> values = ids.to_vector<int64_t>();
  Shape shape = ids.shape();
  shape.push_back(1);
  Tensor places = Tensor::zeros(shape, DType::u8);
  bool any = false;
  for (size_t i = 0; i < values.size(); ++i) {
    places.data<uint8_t>()[i] = values[i] == padding;
    any = any || values[i] == padding;
  }
  return any ? places : Tensor();
}

}  // namespace

Tensor Embedding::operator()(const Tensor& ids) const {
  Tensor rows = embedding(weight_, ids);
  if (padding_ && needs_grad({weight_})) {
    const Tensor places = padding_places(ids, *padding_);
    if (places.defined()) {
      rows = where(places, rows.detach(), rows);
    }
  }
  const bool wide = rows.dtype() == DType::f32 || rows.dtype() == DType::f64;
  return wide || weight_.requires_grad() ? rows : cast(rows, DType::f32);
}

FeedForward::FeedForward(Linear up, Linear down, Activation activation, double activation_dropout)
    : up_(std::move(up)),
      down_(std::move(down)),
      activation_(activation),
      activation_dropout_(activation_dropout) {}

FeedForward::FeedForward(Linear gate, Linear up, Linear down, Activation activation,
                         double activation_dropout)
    : gate_(std::move(gate)),
      up_(std::move(up)),
      down_(std::move(down)),
      activation_(activation),
      activation_dropout_(activation_dropout) {}

FeedForward FeedForward::fused_gate(Linear gate_up, Linear down, Activation activation,
                                    double activation_dropout) {
  FeedForward result({}, std::move(down), activation, activation_dropout);
  result.gate_up_ = std::move(gate_up);
  return result;
}

Tensor FeedForward::operator()(const Tensor& x, const Pass& pass, const Tensor& residual) const {
  const HookScope hook_scope("mlp");
  Tensor hidden;
  if (gate_up_.defined()) {
    const Tensor both = gate_up_(x);
    const int64_t size = both.size(-1) / 2;
    const std::vector<Tensor> parts = split(both, {size, size}, -1);
    hidden = gated(observe("hook_pre", contiguous(parts[0])),
                   observe("hook_pre_linear", contiguous(parts[1])), activation_);
  } else if (gate_.defined()) {
    hidden = gated(observe("hook_pre", gate_(x)), observe("hook_pre_linear", up_(x)), activation_);
  } else {
    hidden = up_(x, activation_);
  }
  hidden = pass.dropout(observe("hook_post", hidden), activation_dropout_);
  return down_(hidden, Activation::none, residual);
}

}  // namespace heed
