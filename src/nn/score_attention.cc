#include "base/check.h"
#include "heed/ops.h"
#include "heed/transformer.h"

namespace heed {
namespace {

/// Scores v_score · tanh(query [B, H, Tq, A] + key [B, H, Tk, A]) for every pair.
Tensor tanh_scores(const Tensor& query, const Tensor& key, const Tensor& v_score) {
  const Tensor pairs = tanh(unsqueeze(query, 3) + unsqueeze(key, 2));  // [B, H, Tq, Tk, A]
  return squeeze(matmul(pairs, unsqueeze(v_score, 1)), 4);
}

void check_heads(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, op,
        "q {}, k {} and v {} must be [batch, heads, length, depth]", q.shape(), k.shape(),
        v.shape());
  check(q.size(0) == k.size(0) && q.size(1) == k.size(1), op,
        "q {} and k {} must agree in batch and heads", q.shape(), k.shape());
}

void check_weight(const char* op, const char* name, const Tensor& weight, const Shape& shape) {
  check(weight.defined() && weight.shape() == shape, op, "{} has shape {}, wanted {}", name,
        weight.defined() ? weight.shape().to_string() : "none", shape);
}

/// Scale, soft-cap and bias in the order in which attention() applies them.
Tensor limited(const Tensor& scores_in, const AttentionOptions& options) {
  Tensor scores = scores_in;
  if (options.scale) {
    scores = scores * *options.scale;
  }
  if (options.softcap > 0) {
    scores = tanh(scores * (1.0 / options.softcap)) * options.softcap;
  }
  return options.bias.defined() ? scores + cast(options.bias, scores.dtype()) : scores;
}

/// Keys [B, H, Tk, D] with zeros where there is padding: what stands there may be no number, and
/// would reach the gradient of the weights that all keys share.
Tensor real_keys(const Tensor& k, const Tensor& key_padding) {
  if (!key_padding.defined()) {
    return k;
  }
  check(key_padding.shape() == Shape({k.size(0), k.size(2)}), "attention",
        "key_padding {} must be [batch, keys] = [{}, {}]", key_padding.shape(), k.size(0),
        k.size(2));
  const Tensor real = reshape(key_padding, {k.size(0), 1, k.size(2), 1});
  return where(real, k, Tensor::zeros({1}, k.dtype()));
}

}  // namespace

Tensor attend_scores(const Tensor& scores, const Tensor& v, const AttentionOptions& options) {
  check(scores.rank() == 4 && v.rank() == 4, "attend_scores",
        "scores {} must be [batch, heads, queries, keys], v {} [batch, heads, keys, depth]",
        scores.shape(), v.shape());
  // attention() with nothing but a bias: masks, dropout, records and gradients are its own.
  AttentionOptions mine = options;
  mine.bias = limited(scores, options);
  mine.scale = 1.0;
  mine.softcap = 0.0;
  const Tensor q = Tensor::zeros({scores.size(0), scores.size(1), scores.size(2), 1}, v.dtype());
  const Tensor k = Tensor::zeros({v.size(0), v.size(1), v.size(2), 1}, v.dtype());
  return attention(q, k, v, mine);
}

Tensor additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w_query,
                          const Tensor& w_key, const Tensor& v_score,
                          const AttentionOptions& options) {
  constexpr const char* kOp = "additive_attention";
  check_heads(kOp, q, k, v);
  check(v_score.defined() && v_score.rank() == 1, kOp, "v_score must be [hidden]");
  check_weight(kOp, "w_query", w_query, {v_score.size(0), q.size(3)});
  check_weight(kOp, "w_key", w_key, {v_score.size(0), k.size(3)});
  return attend_scores(
      tanh_scores(linear(q, w_query, Tensor()),
                  linear(real_keys(k, options.key_padding), w_key, Tensor()), v_score),
      v, options);
}

Tensor luong_dot_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& options) {
  AttentionOptions mine = options;
  mine.scale = options.scale.value_or(1.0);
  return attention(q, k, v, mine);
}

Tensor luong_general_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& w_general, const AttentionOptions& options) {
  constexpr const char* kOp = "luong_general_attention";
  check_heads(kOp, q, k, v);
  check_weight(kOp, "w_general", w_general, {q.size(3), k.size(3)});
  return luong_dot_attention(q, linear(real_keys(k, options.key_padding), w_general, Tensor()), v,
                             options);
}

Tensor luong_concat_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& w_concat, const Tensor& v_score,
                              const AttentionOptions& options) {
  constexpr const char* kOp = "luong_concat_attention";
  check_heads(kOp, q, k, v);
  check(v_score.defined() && v_score.rank() == 1, kOp, "v_score must be [hidden]");
  const int64_t split = q.size(3);
  check_weight(kOp, "w_concat", w_concat, {v_score.size(0), split + k.size(3)});
  // A product with [q; k] is the sum of two products: no pair need be joined.
  return additive_attention(q, k, v, slice(w_concat, 1, 0, split),
                            slice(w_concat, 1, split, w_concat.size(1)), v_score, options);
}

}  // namespace heed
