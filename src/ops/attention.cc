#include "heed/attention.h"

#include "autograd/node.h"
#include "base/check.h"
#include "heed/ops.h"
#include "kernels/quantize.h"
#include "ops/attention_problem.h"
#include "ops/attention_rank.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

/// Everything the gradient of one call reads.
struct CallSaved {
  AttentionShape shape;
  AttentionOptions options;
  RandomKey random;
  Saved bias;
  bool wants_bias;
  FlashSaved flash;
};

template <class T>
std::vector<Tensor> flash_gradient(const CallSaved& saved, const Tensor& dy) {
  using C = kernels::Compute<T>;
  const DType type = DTypeOf<C>::value;
  const DType stored = saved.flash.q.get().dtype();
  const FlashOperands in(saved.flash, dy, DTypeOf<T>::value);
  const Tensor bias = saved.bias.get();
  const Tensor compute = compute_bias(bias, type);
  auto problem = attention_problem<T>(saved.shape, in.q, in.k, in.v, compute, saved.options);
  problem.dropout = saved.options.dropout;
  problem.random = saved.random;
  const auto [dq, dk, dv] = empty_gradients(in.q, in.k, in.v, DTypeOf<T>::value);
  const Tensor dbias = saved.wants_bias ? Tensor::zeros(bias.shape(), type) : Tensor();
  kernels::attention_backward<T>(
      problem, heads_view<const T>(in.output), heads_view<const T>(in.dout),
      {saved.flash.row_max.get().data<C>(), saved.flash.row_inverse.get().data<C>()},
      {heads_view<T>(dq), heads_view<T>(dk), heads_view<T>(dv), score_view<C>(dbias)});
  return {cast(dq, stored), cast(dk, stored), cast(dv, stored),
          dbias.defined() ? dbias.to(bias.dtype()) : dbias};
}

Tensor flash_with_gradient(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const AttentionOptions& options, RandomKey random,
                           FlashResult* result) {
  const Tensor columns_q = with_contiguous_columns(q);
  const Tensor columns_k = with_contiguous_columns(k);
  const Tensor columns_v = with_contiguous_columns(v);
  *result = flash_attention(shape, columns_q, columns_k, columns_v, options, random);
  if (!needs_grad({q, k, v, options.bias})) {
    return result->output;
  }
  CallSaved saved{shape,
                  options,
                  random,
                  Saved(options.bias),
                  options.bias.requires_grad(),
                  FlashSaved(columns_q, columns_k, columns_v, *result)};
  saved.options.bias = Tensor();  // no history in the closure
  return record("attention", result->output, {q, k, v, options.bias},
                [saved = std::move(saved)](const Tensor& dy) {
                  return in_gradient_type(saved.flash.q.get().dtype(), [&](auto zero) {
                    return flash_gradient<decltype(zero)>(saved, dy);
                  });
                });
}

/// Keys or values of a cache [B, H, T, D] in f32. Rows of quantised ones are whole blocks.
Tensor widened(const Tensor& x) {
  if (!is_quantized(x.dtype())) {
    return x.to(DType::f32);
  }
  Tensor result = Tensor::empty(x.shape());
  float* out = result.data<float>();
  for (int64_t b = 0; b < x.size(0); ++b) {
    for (int64_t h = 0; h < x.size(1); ++h) {
      for (int64_t row = 0; row < x.size(2); ++row, out += x.size(3)) {
        const int64_t at = b * x.strides()[0] + h * x.strides()[1] + row * x.strides()[2];
        kernels::dequantize(stored_element(x.dtype()),
                            static_cast<const char*>(x.raw()) + bytes_of(x.dtype(), at), out,
                            x.size(3));
      }
    }
  }
  return result;
}

/// By the kernel that the options name; `flash` is filled where that is the flash kernel.
Tensor computed(const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& options, RandomKey random, FlashResult* flash) {
  switch (options.kernel) {
    case AttentionKernel::reference:
      return reference_attention(shape, q, k, v, options, random);
    case AttentionKernel::chunked:
      return chunked_attention(shape, q, k, v, options, random);
    default:
      return flash_with_gradient(shape, q, k, v, options, random, flash);
  }
}

}  // namespace

FlashSaved::FlashSaved(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                       const FlashResult& result)
    : q(q_in),
      k(k_in),
      v(v_in),
      output(result.output),
      row_max(result.row_max),
      row_inverse(result.row_inverse) {}

FlashOperands::FlashOperands(const FlashSaved& saved, const Tensor& dy, DType type)
    : q(cast(saved.q.get(), type)),
      k(cast(saved.k.get(), type)),
      v(cast(saved.v.get(), type)),
      output(cast(saved.output.get(), type)),
      dout(with_contiguous_columns(cast(dy, type))) {}

FlashResult flash_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                            const Tensor& v, const AttentionOptions& options, RandomKey random) {
  return dispatch_float(q.dtype(), "attention", [&](auto zero) {
    using T = decltype(zero);
    using C = kernels::Compute<T>;
    FlashResult result{empty_heads(shape.output(), q.dtype()),
                       Tensor::empty(shape.rows(), DTypeOf<C>::value),
                       Tensor::empty(shape.rows(), DTypeOf<C>::value)};
    const Tensor bias = compute_bias(options.bias, q.dtype());
    auto problem = attention_problem<T>(shape, q, k, v, bias, options);
    problem.dropout = options.training ? options.dropout : 0.0;
    problem.random = random;
    kernels::attention_forward<T>(problem, heads_view<T>(result.output),
                                  {result.row_max.data<C>(), result.row_inverse.data<C>()});
    return result;
  });
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& wanted) {
  if (lacks_head_axes(q, k, v)) {
    const FourAxes x = with_head_axes(q, k, v, wanted);
    return without_head_axes(attention(x.q, x.k, x.v, x.options), q.rank());
  }
  const bool half = q.defined() && (q.dtype() == DType::f16 || q.dtype() == DType::bf16);
  const bool steps =
      wanted.kernel == AttentionKernel::reference || wanted.kernel == AttentionKernel::chunked;
  if (half && steps && needs_grad({q, k, v, wanted.bias})) {
    check_attention(q, k, v, wanted);
    return cast(attention(cast(q, DType::f32), cast(k, DType::f32), cast(v, DType::f32), wanted),
                q.dtype());
  }
  Observer* observer = Observer::current();
  if (q.defined() && k.defined() && v.defined() && k.dtype() != q.dtype() &&
      is_cache_type(k.dtype()) && q.dtype() == DType::f32 &&
      (steps || observer != nullptr || needs_grad({q, k, v, wanted.bias}))) {
    // The same bits: the kernel widens keys and values just so, a tile at a time.
    check_attention(q, k, v, wanted);
    return attention(q, widened(k), widened(v), wanted);
  }
  AttentionOptions options = wanted;
  std::string place;
  if (observer != nullptr) {
    place = HookScope::path();
    adjust_by(*observer, place, options);
  }
  const AttentionShape shape = check_attention(q, k, v, options);
  if (!options.training) {
    options.dropout = 0.0;
  }
  RandomKey random;
  if (options.dropout > 0) {
    random = next_random_key();
    // A head of an example has a stream of its own, 2^40 apart, whatever ran beside it.
    random.stream += static_cast<uint64_t>(options.first_example * shape.heads) << 40;
  }
  FlashResult flash;
  Tensor output;
  if (options.pattern) {
    flash = pattern_attention(shape, q, k, v, options);
    output = flash.output;
  } else {
    output = computed(shape, q, k, v, options, random, &flash);
  }
  if (observer != nullptr) {
    if (!flash.row_max.defined()) {
      flash = flash_attention(shape, with_contiguous_columns(q), with_contiguous_columns(k),
                              with_contiguous_columns(v), options, random);
    }
    observer->attention(place, record_of(q, k, v, output, options, flash));
  }
  return output;
}

}  // namespace heed
