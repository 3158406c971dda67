#include <cmath>

#include "heed/ops.h"
#include "nn/heads.h"
#include "nn/longformer.h"

namespace heed {
namespace {

/// Whether products may be taken with the matrix itself: not where it is rounded or adapted.
bool is_plain(const Linear& layer, DType type) {
  return layer.layout() == WeightLayout::out_in && layer.weight().dtype() == type &&
         (type == DType::f32 || type == DType::f64) && !layer.low_rank().defined();
}

/// The matrix of each head, [1, H, D, width].
Tensor by_head(const Linear& layer, int64_t heads) {
  const Tensor& weight = layer.weight();
  return reshape(weight, {1, heads, weight.size(0) / heads, weight.size(1)});
}

/// How much each query [1, H, N, D] attends to each token of x, [1, H, N, T].
Tensor token_weights(const Tensor& x, const Tensor& q, const Linear& key,
                     const AttentionOptions& options) {
  const int64_t heads = q.size(1), count = q.size(2), depth = q.size(3), width = x.size(2);
  const Tensor scaled = mul(q, 1.0 / std::sqrt(static_cast<double>(depth)));
  const Tensor directions = reshape(matmul(scaled, by_head(key, heads)), {heads * count, width});
  Tensor scores = reshape(transpose(linear(reshape(x, {x.size(1), width}), directions, {})),
                          {1, heads, count, x.size(1)});
  if (key.bias().defined()) {  // the same for all tokens
    scores = add(scores, matmul(scaled, reshape(key.bias(), {1, heads, depth, 1})));
  }
  if (options.key_padding.defined()) {
    const Tensor padded = logical_not(options.key_padding.to(DType::boolean));
    scores = masked_fill(scores, reshape(padded, {1, 1, 1, x.size(1)}), -1e30);
  }
  return dropout(softmax(scores), options.dropout, options.training,
                 {options.first_example, 1, {}});
}

/// Values of the tokens, weighted: [1, H, N, D].
Tensor weighted_values(const Tensor& x, const Tensor& weights, const Linear& value) {
  const int64_t heads = weights.size(1), count = weights.size(2), length = x.size(1);
  const Tensor mixed = matmul(reshape(weights, {heads * count, length}), squeeze(x, 0));
  Tensor values =
      matmul(reshape(mixed, {1, heads, count, x.size(2)}), transpose(by_head(value, heads)));
  if (!value.bias().defined()) {
    return values;
  }
  // Weights add up to one but for dropout.
  const Tensor bias = reshape(value.bias(), {1, heads, 1, values.size(3)});
  return add(values, mul(sum(weights, -1, /*keep_axis=*/true), bias));
}

}  // namespace

Tensor attend_everywhere(const Tensor& x, const Tensor& position, const GlobalProjections& global,
                         const AttentionOptions& options, int64_t heads) {
  const Tensor rows = unsqueeze(index_rows(squeeze(x, 0), position), 0);
  const Tensor q = split_heads(global.query(rows), heads);
  const bool few = position.numel() * heads <= x.size(2) / 2;
  if (few && is_plain(global.key, x.dtype()) && is_plain(global.value, x.dtype())) {
    return weighted_values(x, token_weights(x, q, global.key, options), global.value);
  }
  return attention(q, split_heads(global.key(x), heads), split_heads(global.value(x), heads),
                   options);
}

}  // namespace heed
