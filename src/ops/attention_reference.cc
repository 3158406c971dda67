#include <cmath>
#include <limits>
#include <span>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/attention.h"
#include "heed/ops.h"
#include "ops/attention_problem.h"
#include "ops/attention_rank.h"
#include "ops/common.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_masked(const AttentionOptions& options) {
  return options.mask.defined() || options.key_padding.defined() ||
         !std::holds_alternative<NoMask>(options.position);
}

/// [B, Hq, Tq, Tk] factors of dropout, the same that the flash kernel applies. `row` is the number
/// of the first query.
Tensor dropout_factors(const AttentionShape& shape, double p, RandomKey random, int64_t first_row,
                       DType type) {
  const Tensor factors = Tensor::empty(shape.scores(), DType::f64);
  double* out = factors.data<double>();
  parallel_ranges(shape.batch * shape.heads * shape.queries, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels::attention_dropout_row(random, p, row / shape.queries,
                                     first_row + row % shape.queries, shape.keys,
                                     out + row * shape.keys);
    }
  });
  return factors.to(type);
}

/// [B, H, T, D] as [B, Hkv, group, T, D], for products that share keys among a group's heads.
Tensor grouped(const AttentionShape& shape, const Tensor& x) {
  return reshape(
      x, {shape.batch, shape.num_kv_heads, x.size(1) / shape.num_kv_heads, x.size(2), x.size(3)});
}

/// The formula, step by step; every step is an op with its own gradient.
AttentionSteps formula(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                       const Tensor& v, const AttentionOptions& options, RandomKey random,
                       int64_t first_row) {
  AttentionSteps steps;
  steps.scores = matmul(grouped(shape, q), transpose(grouped(shape, k)));
  steps.scores = reshape(steps.scores, shape.scores());
  steps.scaled = steps.scores * attention_scale(shape, options);
  if (options.softcap > 0) {
    steps.scaled = tanh(steps.scaled * (1.0 / options.softcap)) * options.softcap;
  }
  steps.masked = steps.scaled;
  if (options.bias.defined()) {
    steps.masked = steps.masked + cast(options.bias, steps.scaled.dtype());
  }
  const Tensor hidden = hidden_mask(shape, options);
  if (hidden.defined()) {
    steps.masked = masked_fill(steps.masked, hidden, -kInfinity);
  }
  steps.weights = softmax(steps.masked);
  Tensor used = steps.weights;
  if (options.dropout > 0) {
    used = used * dropout_factors(shape, options.dropout, random, first_row, used.dtype());
  }
  steps.output = matmul(grouped(shape, used), grouped(shape, v));
  steps.output = reshape(steps.output, shape.output());
  return steps;
}

/// -inf where every score is.
template <class T>
double log_sum_exp(std::span<const T> scores) {
  double max = -kInfinity;
  for (const T score : scores) {
    max = std::max(max, load_double(score));
  }
  if (max == -kInfinity) {
    return -kInfinity;
  }
  double sum = 0;
  for (const T score : scores) {
    sum += std::exp(load_double(score) - max);
  }
  return max + std::log(sum);
}

/// Whether the plain product would carry NaN or infinity from hidden keys into rows that do not see
/// them (0 · NaN is NaN).
bool would_leak(const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return is_masked(options) && !(all_finite(k) && all_finite(v));
}

AttentionOptions with_flash(AttentionOptions options) {
  options.kernel = AttentionKernel::flash;
  return options;
}

/// Rows [begin, end) of what is broadcast over the queries.
Tensor query_rows(const Tensor& x, int64_t begin, int64_t end) {
  const bool whole = !x.defined() || x.rank() < 2 || x.size(-2) == 1;
  return whole ? x : slice(x, -2, begin, end);
}

}  // namespace

AttentionOptions for_rows(const AttentionOptions& options, int64_t begin, int64_t end) {
  AttentionOptions part = options;
  part.mask = query_rows(options.mask, begin, end);
  part.bias = query_rows(options.bias, begin, end);
  if (auto* causal = std::get_if<Causal>(&part.position)) {
    causal->offset += begin;
  } else if (auto* window = std::get_if<Window>(&part.position)) {
    window->offset += begin;
  }
  return part;
}

Tensor in_query_chunks(const AttentionShape& shape, int64_t chunk, DType type,
                       const std::function<std::vector<Tensor>(int64_t begin, int64_t end)>& inputs,
                       const std::function<Tensor(int64_t begin, int64_t end,
                                                  const std::vector<Tensor>& inputs)>& compute) {
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < shape.queries; begin += chunk) {
    const int64_t end = std::min(shape.queries, begin + chunk);
    const std::vector<Tensor> given = inputs(begin, end);
    const bool again = chunk < shape.queries && needs_grad(given);
    parts.push_back(
        again ? checkpoint([compute, begin,
                            end](const std::vector<Tensor>& in) { return compute(begin, end, in); },
                           given)
              : compute(begin, end, given));
  }
  return parts.empty() ? Tensor::zeros(shape.output(), type) : concat(parts, 2);
}

Tensor hidden_mask(const AttentionShape& shape, const AttentionOptions& options) {
  if (!is_masked(options)) {
    return Tensor();
  }
  const auto mask = score_view<const uint8_t>(options.mask);
  const auto* padding = options.key_padding.defined()
                            ? static_cast<const uint8_t*>(options.key_padding.raw())
                            : nullptr;
  const VisibleRange range = visible_range(options.position);
  const int64_t batch = padding != nullptr || mask.batch != 0 ? shape.batch : 1;
  const int64_t heads = mask.head != 0 ? shape.heads : 1;
  Tensor hidden = Tensor::empty({batch, heads, shape.queries, shape.keys}, DType::boolean);
  bool* out = hidden.data<bool>();
  parallel_ranges(batch * heads * shape.queries, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t i = row % shape.queries;
      const int64_t h = row / shape.queries % heads;
      const int64_t b = row / shape.queries / heads;
      for (int64_t j = 0; j < shape.keys; ++j) {
        bool visible = (j >= i + range.first && j <= i + range.last) || j < range.prefix;
        visible = visible && (mask.data == nullptr || *mask.at(b, h, i, j) != 0);
        visible =
            visible &&
            (padding == nullptr ||
             padding[b * options.key_padding.strides()[0] + j * options.key_padding.strides()[1]] !=
                 0);
        out[row * shape.keys + j] = !visible;
      }
    }
  });
  return hidden;
}

Tensor reference_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const AttentionOptions& options, RandomKey random) {
  if (would_leak(k, v, options)) {
    return attention(q, k, v, with_flash(options));
  }
  return formula(shape, q, k, v, options, random, 0).output;
}

Tensor chunked_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                         const Tensor& v, const AttentionOptions& options, RandomKey random) {
  if (would_leak(k, v, options)) {
    return attention(q, k, v, with_flash(options));
  }
  const auto inputs = [&](int64_t begin, int64_t end) {
    std::vector<Tensor> given{slice(q, 2, begin, end), k, v};
    if (options.bias.defined()) {
      given.push_back(query_rows(options.bias, begin, end));
    }
    return given;
  };
  AttentionOptions plain = options;
  plain.bias = Tensor();  // comes as an input: no history in what is computed again
  const auto compute = [shape, plain, random](int64_t begin, int64_t end,
                                              const std::vector<Tensor>& given) {
    AttentionShape part = shape;
    part.queries = end - begin;
    AttentionOptions mine = for_rows(plain, begin, end);
    mine.bias = given.size() > 3 ? given[3] : Tensor();
    return formula(part, given[0], given[1], given[2], mine, random, begin).output;
  };
  return in_query_chunks(shape, options.chunk, q.dtype(), inputs, compute);
}

AttentionSteps attention_steps(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionOptions& wanted) {
  const NoGrad no_grad;
  if (lacks_head_axes(q, k, v)) {
    const FourAxes x = with_head_axes(q, k, v, wanted);
    AttentionSteps steps = attention_steps(x.q, x.k, x.v, x.options);
    for (Tensor* each :
         {&steps.scores, &steps.scaled, &steps.masked, &steps.weights, &steps.output, &steps.lse}) {
      *each = without_head_axes(*each, q.rank());
    }
    return steps;
  }
  const AttentionShape shape = check_attention(q, k, v, wanted);
  AttentionOptions options =
      for_range(wanted, {0, shape.batch, 0, shape.heads, 0, shape.queries, 0, shape.keys});
  options.dropout = 0.0;
  AttentionSteps steps = formula(shape, q, k, v, options, RandomKey{}, 0);
  if (would_leak(k, v, options)) {
    steps.output = attention(q, k, v, with_flash(options));
  }
  const Tensor masked = steps.masked.contiguous();
  const Tensor lse = Tensor::empty(shape.rows(), DType::f64);
  dispatch_float(masked.dtype(), "attention", [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(lse.numel(), 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        lse.data<double>()[row] =
            log_sum_exp<T>({masked.data<T>() + row * shape.keys, static_cast<size_t>(shape.keys)});
      }
    });
  });
  steps.lse = lse.to(steps.masked.dtype());
  return steps;
}

}  // namespace heed
