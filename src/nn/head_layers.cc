#include "base/check.h"
#include "heed/transformer.h"
#include "nn/heads.h"

namespace heed {

SingleHeadAttention::SingleHeadAttention(const Scope& scope, int64_t width, const Options& options)
    : options_(options) {
  if (options_.head_dim == 0) {
    options_.head_dim = width;
  }
  Linear::Options with;
  with.bias = options.bias;
  query_ = Linear(scope / "query", width, options_.head_dim, with);
  key_ = Linear(scope / "key", width, options_.head_dim, with);
  value_ = Linear(scope / "value", width, options_.head_dim, with);
  if (options.output) {
    output_ = Linear(scope / "output", options_.head_dim, width, with);
  }
}

Tensor SingleHeadAttention::operator()(const Tensor& x, const Tensor& memory,
                                       const Tensor& key_padding, bool training) const {
  check(x.rank() == 3, "SingleHeadAttention", "x {} must be [batch, length, width]", x.shape());
  const Tensor& source = memory.defined() ? memory : x;
  AttentionOptions options;
  options.key_padding = key_padding;
  options.dropout = options_.dropout;
  options.training = training;
  if (options_.causal) {
    options.position = Causal{source.size(1) - x.size(1)};
  }
  const Tensor context =
      join_heads(attention(split_heads(query_(x), 1), split_heads(key_(source), 1),
                           split_heads(value_(source), 1), options));
  return output_.defined() ? output_(context) : context;
}

HeadList::HeadList(const Scope& scope, int64_t width, int64_t heads, bool causal, double dropout) {
  check(heads > 0 && width % heads == 0, "HeadList", "{} heads do not divide width {}", heads,
        width);
  SingleHeadAttention::Options options;
  options.head_dim = width / heads;
  options.causal = causal;
  options.dropout = dropout;
  options.output = false;
  for (int64_t n = 0; n < heads; ++n) {
    heads_.emplace_back(scope / "heads" / n, width, options);
  }
  output_ = Linear(scope / "output", width, width);
}

Tensor HeadList::operator()(const Tensor& x, const Tensor& memory, const Tensor& key_padding,
                            bool training) const {
  std::vector<Tensor> parts;
  for (const SingleHeadAttention& head : heads_) {
    parts.push_back(head(x, memory, key_padding, training));
  }
  return output_(concat(parts, 2));
}

MultiHeadAttention HeadList::fused() const {
  const auto stack_rows = [&](Linear SingleHeadAttention::*part) {
    std::vector<Tensor> weights;
    std::vector<Tensor> biases;
    for (const SingleHeadAttention& head : heads_) {
      weights.push_back((head.*part).weight());
      biases.push_back((head.*part).bias());
    }
    return Linear(concat(weights, 0), concat(biases, 0));
  };
  MultiHeadAttention::Options options;
  options.num_heads = static_cast<int64_t>(heads_.size());
  options.head_dim = heads_.front().options_.head_dim;
  options.causal = heads_.front().options_.causal;
  options.dropout = heads_.front().options_.dropout;
  return MultiHeadAttention(stack_rows(&SingleHeadAttention::query_),
                            stack_rows(&SingleHeadAttention::key_),
                            stack_rows(&SingleHeadAttention::value_), output_, options);
}

ScoredAttention::ScoredAttention(const Scope& scope, Kind kind, int64_t query_width,
                                 int64_t key_width, int64_t hidden)
    : kind_(kind) {
  switch (kind) {
    case Kind::additive:
      w_query_ = scope.parameter("w_query", {hidden, query_width}, Init::fan_in(query_width));
      w_key_ = scope.parameter("w_key", {hidden, key_width}, Init::fan_in(key_width));
      v_score_ = scope.parameter("v_score", {hidden}, Init::fan_in(hidden));
      break;
    case Kind::general:
      w_general_ = scope.parameter("w_general", {query_width, key_width}, Init::fan_in(key_width));
      break;
    case Kind::concat:
      w_concat_ = scope.parameter("w_concat", {hidden, query_width + key_width},
                                  Init::fan_in(query_width + key_width));
      v_score_ = scope.parameter("v_score", {hidden}, Init::fan_in(hidden));
      break;
    case Kind::dot:
      check(query_width == key_width, "ScoredAttention", "dot scores want one width, not {} and {}",
            query_width, key_width);
      break;
  }
}

Tensor ScoredAttention::operator()(const Tensor& query, const Tensor& memory,
                                   const Tensor& key_padding) const {
  AttentionOptions options;
  options.key_padding = key_padding;
  const Tensor q = split_heads(query, 1);
  const Tensor k = split_heads(memory, 1);
  switch (kind_) {
    case Kind::additive:
      return join_heads(additive_attention(q, k, k, w_query_, w_key_, v_score_, options));
    case Kind::general:
      return join_heads(luong_general_attention(q, k, k, w_general_, options));
    case Kind::concat:
      return join_heads(luong_concat_attention(q, k, k, w_concat_, v_score_, options));
    case Kind::dot:
      break;
  }
  return join_heads(luong_dot_attention(q, k, k, options));
}

}  // namespace heed
