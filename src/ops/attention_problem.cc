#include "ops/attention_problem.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace heed {
namespace {

constexpr const char* kAttention = "attention";

void check_broadcast(const Tensor& x, const Shape& scores, const char* name) {
  bool fits = x.rank() <= 4;
  for (int axis = 0; fits && axis < x.rank(); ++axis) {
    const int64_t dim = x.size(axis);
    fits = dim == 1 || dim == scores[4 - x.rank() + axis];
  }
  check(fits, kAttention, "{} of shape {} does not broadcast to the scores {}", name, x.shape(),
        scores);
}

void check_mask_type(const Tensor& x, const char* name) {
  check(x.dtype() == DType::boolean || x.dtype() == DType::u8, kAttention,
        "{} is {}; give bool or u8, true = attend", name, name_of(x.dtype()));
}

void check_options(const AttentionShape& shape, const AttentionOptions& options) {
  if (options.mask.defined()) {
    check_mask_type(options.mask, "mask");
    check_broadcast(options.mask, shape.scores(), "mask");
  }
  if (options.bias.defined()) {
    check(is_floating(options.bias.dtype()), kAttention, "bias is {}; give a floating tensor",
          name_of(options.bias.dtype()));
    check_broadcast(options.bias, shape.scores(), "bias");
  }
  if (options.key_padding.defined()) {
    check_mask_type(options.key_padding, "key_padding");
    check(options.key_padding.shape() == Shape({shape.batch, shape.keys}), kAttention,
          "key_padding has shape {}, wanted [batch, keys] = [{}, {}]", options.key_padding.shape(),
          shape.batch, shape.keys);
  }
  check(!options.scale.has_value() || std::isfinite(*options.scale), kAttention,
        "scale {} is not finite", options.scale.value_or(0));
  check(std::isfinite(options.softcap) && options.softcap >= 0, kAttention,
        "softcap {} must be 0 (off) or positive", options.softcap);
  check(options.dropout >= 0 && options.dropout < 1, kAttention, "dropout {} is outside [0, 1)",
        options.dropout);
  check(options.chunk > 0, kAttention, "chunk {} must be positive", options.chunk);
  if (const auto* window = std::get_if<Window>(&options.position)) {
    check(window->left >= -1 && window->right >= -1, kAttention,
          "window {}, {} must be -1 (no limit) or more", window->left, window->right);
    check(window->prefix >= 0, kAttention, "window prefix {} must not be negative", window->prefix);
  }
}

}  // namespace

AttentionShape check_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionOptions& options) {
  check(q.defined() && k.defined() && v.defined(), kAttention, "q, k and v must be given");
  check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, kAttention,
        "q {}, k {} and v {} must all be [length, depth], [batch, length, depth] or [batch, heads, "
        "length, depth]",
        q.shape(), k.shape(), v.shape());
  AttentionShape shape{q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3)};
  check(k.size(0) == shape.batch && v.size(0) == shape.batch, kAttention,
        "batches differ: q {}, k {}, v {}", q.shape(), k.shape(), v.shape());
  check(k.size(3) == shape.depth && shape.depth > 0, kAttention,
        "q {} and k {} must agree in their last axis, which must not be empty", q.shape(),
        k.shape());
  check(v.size(1) == shape.num_kv_heads && v.size(2) == shape.keys, kAttention,
        "k {} and v {} must agree in heads and length", k.shape(), v.shape());
  check(shape.num_kv_heads > 0 && shape.heads % shape.num_kv_heads == 0, kAttention,
        "{} query heads are no multiple of {} key heads", shape.heads, shape.num_kv_heads);
  const bool cached = q.dtype() == DType::f32 && is_cache_type(k.dtype());
  check(is_floating(q.dtype()) && (q.dtype() == k.dtype() || cached) && k.dtype() == v.dtype(),
        kAttention, "q {}, k {} and v {} must have one floating type", name_of(q.dtype()),
        name_of(k.dtype()), name_of(v.dtype()));
  check_options(shape, options);
  return shape;
}

kernels::Element stored_element(DType type) {
  switch (type) {
    case DType::f64:
      return kernels::Element::f64;
    case DType::f16:
      return kernels::Element::f16;
    case DType::bf16:
      return kernels::Element::bf16;
    case DType::q8_0:
      return kernels::Element::q8_0;
    default:
      return kernels::Element::f32;
  }
}

bool is_cache_type(DType type) {
  return type == DType::f16 || type == DType::bf16 || type == DType::q8_0;
}

VisibleRange visible_range(const PositionMask& position) {
  const int64_t kFar = kernels::kUnlimited / 2;
  const auto bounded = [kFar](int64_t value) { return std::clamp(value, -kFar, kFar); };
  VisibleRange range;
  if (const auto* causal = std::get_if<Causal>(&position)) {
    range.last = bounded(causal->offset);
  } else if (const auto* window = std::get_if<Window>(&position)) {
    const int64_t offset = bounded(window->offset);
    if (window->left >= 0) {
      range.first = offset - bounded(window->left);
    }
    if (window->right >= 0) {
      range.last = offset + bounded(window->right);
    }
    range.prefix = window->prefix;
  }
  return range;
}

double attention_scale(const AttentionShape& shape, const AttentionOptions& options) {
  return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(shape.depth)));
}

Tensor with_contiguous_columns(const Tensor& x) {
  const int last = x.rank() - 1;
  return x.size(last) <= 1 || x.strides()[last] == 1 ? x : x.contiguous();
}

Tensor empty_heads(const Shape& shape, DType type) {
  const Tensor memory = Tensor::empty({shape[0], shape[2], shape[1], shape[3]}, type);
  const Shape strides{shape[2] * shape[1] * shape[3], shape[3], shape[1] * shape[3], 1};
  return memory.alias(shape, strides, 0);
}

std::array<Tensor, 3> empty_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                      DType type) {
  const std::array<const Tensor*, 3> inputs{&q, &k, &v};
  int64_t row = 0;
  for (const Tensor* x : inputs) {
    row += x->size(1) * x->size(3);
  }
  bool together = q.dtype() == type;
  int64_t at = 0;
  for (const Tensor* x : inputs) {
    const Shape strides{q.size(2) * row, x->size(3), row, 1};
    together = together && x->size(0) == q.size(0) && x->size(2) == q.size(2) &&
               x->strides() == strides && x->shares_storage_with(q) &&
               static_cast<const char*>(x->raw()) ==
                   static_cast<const char*>(q.raw()) + bytes_of(type, at);
    at += x->size(1) * x->size(3);
  }
  if (!together) {
    return {empty_heads(q.shape(), type), empty_heads(k.shape(), type),
            empty_heads(v.shape(), type)};
  }
  const Tensor memory = Tensor::empty({q.size(0), q.size(2), row}, type);
  std::array<Tensor, 3> gradients;
  at = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = *inputs[i];
    gradients[i] = memory.alias(x.shape(), x.strides(), at);
    at += x.size(1) * x.size(3);
  }
  return gradients;
}

Tensor compute_bias(const Tensor& bias, DType type) {
  return bias.defined() ? bias.to(type == DType::f64 ? DType::f64 : DType::f32) : bias;
}

}  // namespace heed
