#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "heed/ops.h"
#include "heed/transformer.h"
#include "nn/heads.h"

namespace heed {
namespace {

constexpr const char* kPerformer = "performer_attention";
constexpr double kEpsilon = 1e-4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kHidden = -1e30;  // finite, so that a sequence of nothing but padding gives no NaN
constexpr double kNothing = 1e-30;  // added to sums of at least 1e-4, or of no key at all
constexpr int64_t kChunk = 16;      // rows of the causal form that are computed together

/// ω·x' - |x'|²/2 with x' = x·D^(-1/4): [B, H, T, m]. The m^(-1/2) of both feature maps cancels.
Tensor exponents(const Tensor& x, const Tensor& projection) {
  const Tensor scaled = x * std::pow(static_cast<double>(x.size(3)), -0.25);
  return linear(scaled, projection, Tensor()) - sum(scaled * scaled, -1, true) * 0.5;
}

Tensor query_features(const Tensor& q, const Tensor& projection) {
  const Tensor e = exponents(q, projection);
  return exp(e - max(e, -1, true)) + kEpsilon;
}

/// What the rows of weights are divided by, and the exponent that was taken from their keys' first:
/// [B, H, T] each.
struct RowSums {
  Tensor total, top;
};

/// [B, 1, T, 1] of 1 and 0, or undefined.
Tensor real_keys(const Tensor& key_padding, DType type) {
  return key_padding.defined()
             ? reshape(key_padding.to(type), {key_padding.size(0), 1, key_padding.size(1), 1})
             : Tensor();
}

Tensor hidden_keys(const Tensor& real) { return add(real * -1.0, 1.0).to(DType::boolean); }

Tensor full(const Tensor& queries, Tensor keys, const Tensor& v, const Tensor& real,
            RowSums* sums) {
  if (real.defined()) {
    keys = masked_fill(keys, expand(hidden_keys(real), keys.shape()), kHidden);
  }
  // One maximum over sequence and features: only so does it cancel.
  const Tensor top = max(max(keys, -1, true), -2, true);
  Tensor features = exp(keys - top) + kEpsilon;
  if (real.defined()) {
    features = features * real;
  }
  const Tensor context = matmul(transpose(features), v);    // [B, H, m, Dv]
  const Tensor total = transpose(sum(features, -2, true));  // [B, H, m, 1]
  const Tensor divisor = matmul(queries, total) + kNothing;
  if (sums != nullptr) {
    *sums = {divisor, contiguous(expand(top, divisor.shape()))};
  }
  return matmul(queries, context) / divisor;
}

/// One chunk of rows. Every row has the maximum over the keys it sees, so no later key touches it.
Tensor causal_chunk(const Tensor& queries, const Tensor& keys, const Tensor& v, const Tensor& real,
                    PerformerState* state, RowSums* sums) {
  const int64_t rows = queries.size(2);
  const DType type = v.dtype();
  const Tensor later = Tensor::zeros({rows, rows}, DType::boolean);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i + 1; j < rows; ++j) {
      later.data<bool>()[i * rows + j] = true;
    }
  }
  const Shape pairs{v.size(0), v.size(1), rows, rows};
  const Tensor hidden = contiguous(expand(reshape(later, {1, 1, rows, rows}), pairs));
  // max_i over keys j <= i and over what came before.
  const Tensor row_max = expand(transpose(max(keys, -1, true)), pairs);  // [.., i, j]: of key j
  const Tensor seen = masked_fill(contiguous(row_max), hidden, -kInfinity);
  Tensor top = max(seen, -1, true);  // [B, H, rows, 1]
  if (state->max.defined()) {
    top = max(concat({top, contiguous(expand(state->max, top.shape()))}, -1), -1, true);
  }
  // exp(e_j - max_i) for every pair and feature, then q_i · that: [B, H, i, j].
  const Tensor spread = unsqueeze(keys, 2) - unsqueeze(top, 3);  // [B, H, i, j, m]
  const Tensor visible =
      masked_fill(spread, contiguous(expand(unsqueeze(hidden, 4), spread.shape())), -kInfinity);
  Tensor weights = squeeze(matmul(exp(visible), unsqueeze(queries, 4)), 4);
  const Tensor allowed = add(hidden.to(type) * -1.0, 1.0);
  weights = weights + sum(queries, -1, true) * kEpsilon * allowed;
  if (real.defined()) {
    weights = weights * transpose(real);
  }
  Tensor numerator = matmul(weights, v);
  Tensor denominator = sum(weights, -1, true);
  if (state->max.defined()) {
    const Tensor fade = exp(contiguous(expand(state->max, top.shape())) - top);  // <= 1
    const Tensor mass = sum(queries, -1, true) * kEpsilon;
    numerator = numerator + matmul(queries, state->context) * fade + mass * state->values;
    denominator = denominator + matmul(queries, state->total) * fade + mass * state->count;
  }
  const Tensor new_max = slice(top, 2, rows - 1, rows);
  Tensor features = exp(keys - new_max);
  Tensor values = v;
  Tensor ones = Tensor::full({v.size(0), v.size(1), rows, 1}, 1.0, type);
  if (real.defined()) {
    features = features * real;
    values = v * real;
    ones = ones * real;
  }
  PerformerState next{new_max, matmul(transpose(features), v), transpose(sum(features, -2, true)),
                      sum(values, -2, true), sum(ones, -2, true)};
  if (state->max.defined()) {
    const Tensor fade = exp(state->max - new_max);
    next.context = next.context + state->context * fade;
    next.total = next.total + state->total * fade;
    next.values = next.values + state->values;
    next.count = next.count + state->count;
  }
  *state = next;
  *sums = {denominator + kNothing, top};
  return numerator / sums->total;
}

Tensor causal_rows(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   const Tensor& real, PerformerState* state, RowSums* sums) {
  std::vector<Tensor> rows, totals, tops;
  const std::vector<Tensor> query_chunks = chunks(queries, kChunk, 2);
  const std::vector<Tensor> key_chunks = chunks(keys, kChunk, 2);
  const std::vector<Tensor> value_chunks = chunks(values, kChunk, 2);
  for (size_t i = 0; i < query_chunks.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * kChunk;
    const int64_t end = begin + query_chunks[i].size(2);
    RowSums own;
    rows.push_back(causal_chunk(query_chunks[i], key_chunks[i], value_chunks[i],
                                real.defined() ? slice(real, 2, begin, end) : real, state, &own));
    totals.push_back(own.total.detach());
    tops.push_back(own.top.detach());
  }
  if (sums != nullptr) {
    *sums = {concat(totals, 2), concat(tops, 2)};
  }
  return concat(rows, 2);
}

/// The logarithms of the weights that the features stand for, as a pattern over all pairs of
/// positions. Padded keys are hidden by key_padding, later ones by position.
class FeaturePattern final : public ScorePattern {
 public:
  FeaturePattern(const Tensor& q, const Tensor& k, const Tensor& projection, const RowSums& sums)
      : q_(q.detach().contiguous()),
        k_(k.detach().contiguous()),
        projection_(projection.detach()),
        total_(sums.total.detach().contiguous()),
        top_(sums.top.detach().contiguous()) {}

  Tensor part(int64_t batch, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    const NoGrad no_grad;
    const int64_t first = (batch * q_.size(1) + head) * q_.size(2);  // row of the flat tensors
    const Tensor index = Tensor::empty({static_cast<int64_t>(rows.size())}, DType::i64);
    std::transform(rows.begin(), rows.end(), index.data<int64_t>(),
                   [first](int64_t row) { return first + row; });
    const auto flat = [](const Tensor& x) {
      return reshape(x, {x.numel() / x.size(3), x.size(3)});
    };
    const auto picked = [&](const Tensor& x) {  // [1, 1, rows, columns]
      return reshape(index_rows(flat(x), index), {1, 1, index.numel(), x.size(3)});
    };
    const Tensor queries = query_features(picked(q_), projection_);
    const Tensor part_of_keys = slice(flat(k_), 0, first + key_begin, first + key_end);
    const Tensor keys = exponents(unsqueeze(unsqueeze(part_of_keys, 0), 0), projection_);
    const Tensor peak = max(keys, -1, true);  // of each key: its features are at most 1
    const Tensor products = matmul(queries, transpose(exp(keys - peak)));
    const Tensor scaled = products * exp(transpose(peak) - picked(top_));
    const Tensor weights = (scaled + sum(queries, -1, true) * kEpsilon) / picked(total_);
    return reshape(log(weights), {index.numel(), key_end - key_begin}).contiguous();
  }

  int64_t products() const override { return projection_.size(0); }

 private:
  Tensor q_, k_, projection_, total_, top_;
};

/// computed(&sums) shown to the observer in scope as one matrix of weights.
template <class Computed>
Tensor shown_performer(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& projection,
                       bool causal, const Tensor& key_padding, const Computed& computed) {
  RowSums sums;
  Tensor output;
  {
    const UnobservedScope unobserved;
    output = computed(&sums);
  }
  // The scores are the logarithms of the weights: no products of queries and keys.
  const Shape rows{q.size(0), q.size(1), q.size(2)};
  const Tensor nothing = Tensor::zeros({rows[0], rows[1], rows[2], 1});
  PatternInputs whole{nothing, nothing, v.detach(), {}};
  whole.options.scale = 1.0;
  whole.options.key_padding = key_padding;
  whole.options.pattern = std::make_shared<FeaturePattern>(q, k, projection, sums);
  if (causal) {
    whole.options.position = Causal{};
  }
  const auto sparse = [&] {
    return FlashResult{output, Tensor::zeros(rows), Tensor::full(rows, 1.0)};
  };
  return shown_by_pattern(whole, sparse, [&](const AttentionOptions& changed) {
    return attend_by_pattern(whole, changed);
  });
}

}  // namespace

Tensor performer_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const Tensor& projection, bool causal, const Tensor& key_padding) {
  check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.size(3) == k.size(3) &&
            k.size(2) == v.size(2) && q.size(1) == k.size(1) && k.size(1) == v.size(1),
        kPerformer, "q {}, k {} and v {} must be [batch, heads, length, depth] that agree",
        q.shape(), k.shape(), v.shape());
  check(projection.rank() == 2 && projection.size(1) == q.size(3), kPerformer,
        "projection {} must be [features, {}]", projection.shape(), q.size(3));
  check(!key_padding.defined() || key_padding.shape() == Shape({k.size(0), k.size(2)}), kPerformer,
        "key_padding must be [batch, keys]");
  const Tensor queries = query_features(q, projection);
  const Tensor real = real_keys(key_padding, v.dtype());
  const auto without_padding = [&](const Tensor& x) {  // whatever it holds, NaN included
    return real.defined() ? masked_fill(x, expand(hidden_keys(real), x.shape()), 0.0) : x;
  };
  const Tensor keys = exponents(without_padding(k), projection);
  const Tensor values = without_padding(v);
  check(!causal || q.size(2) == k.size(2), kPerformer,
        "the causal form wants as many queries as keys, not {} and {}", q.size(2), k.size(2));
  const auto computed = [&](RowSums* sums) {
    PerformerState state;
    return causal ? causal_rows(queries, keys, values, real, &state, sums)
                  : full(queries, keys, values, real, sums);
  };
  if (q.size(2) == k.size(2) && v.dtype() == DType::f32 && shows_whole_map()) {
    return shown_performer(q, without_padding(k), values, projection, causal, key_padding,
                           computed);
  }
  return computed(nullptr);
}

Tensor performer_continue(const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& projection, PerformerState& state) {
  check(q.rank() == 4 && q.shape() == k.shape() && v.rank() == 4 && v.size(2) == q.size(2),
        kPerformer, "q {}, k {} and v {} must be [batch, heads, length, depth] that agree",
        q.shape(), k.shape(), v.shape());
  return causal_rows(query_features(q, projection), exponents(k, projection), v, {}, &state,
                     nullptr);
}

Tensor performer_projection(int64_t features, int64_t depth, RandomKey key) {
  check(features > 0 && depth > 0, "performer_projection", "{} features of depth {}", features,
        depth);
  Random draw(key.seed, key.stream);
  Tensor result = Tensor::empty({features, depth});
  const auto n = static_cast<size_t>(depth);
  std::vector<std::vector<double>> block;
  for (int64_t row = 0; row < features; ++row) {
    if (row % depth == 0) {
      block.clear();
    }
    std::vector<double> direction(n);
    double length = 0;
    do {  // Gram-Schmidt; a draw that lies in the span of the others is drawn again
      for (double& value : direction) {
        value = draw.normal();
      }
      for (const auto& other : block) {
        double product = 0;
        for (size_t i = 0; i < n; ++i) {
          product += direction[i] * other[i];
        }
        for (size_t i = 0; i < n; ++i) {
          direction[i] -= product * other[i];
        }
      }
      length = 0;
      for (const double value : direction) {
        length += value * value;
      }
    } while (length < 1e-12);
    double gaussian = 0;
    for (size_t i = 0; i < n; ++i) {
      const double value = draw.normal();
      gaussian += value * value;
    }
    for (size_t i = 0; i < n; ++i) {
      direction[i] /= std::sqrt(length);
      result.data<float>()[row * depth + static_cast<int64_t>(i)] =
          static_cast<float>(direction[i] * std::sqrt(gaussian));
    }
    block.push_back(std::move(direction));
  }
  return result;
}

}  // namespace heed
