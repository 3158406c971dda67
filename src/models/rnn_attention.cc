#include "models/rnn_attention.h"

#include <limits>

#include "base/check.h"

namespace heed {

RnnScore rnn_score(const Json& config, std::string_view key) {
  const std::string name = config.string_or(key, "bahdanau");
  if (name == "bahdanau") {
    return RnnScore::bahdanau;
  }
  if (name == "concat") {
    return RnnScore::concat;
  }
  if (name == "luong-dot") {
    return RnnScore::luong_dot;
  }
  if (name == "luong-general") {
    return RnnScore::luong_general;
  }
  if (name == "luong-concat") {
    return RnnScore::luong_concat;
  }
  fail(ErrorKind::data, config.file(),
       "{} '{}' is not known; use bahdanau, concat, luong-dot, luong-general or luong-concat", key,
       name);
}

bool attends_after(RnnScore score) {
  return score != RnnScore::bahdanau && score != RnnScore::concat;
}

RnnAttention::RnnAttention(const Scope& scope, RnnScore score, int64_t hidden, int64_t size) {
  const Linear::Options plain{.bias = false};
  switch (score) {
    case RnnScore::bahdanau:
      query_ = Linear(scope / "w_query", hidden, size, plain);
      key_ = Linear(scope / "w_key", hidden, size, plain);
      score_vector_ = Linear(scope / "v_score", size, 1, plain);
      break;
    case RnnScore::luong_dot:
      break;
    case RnnScore::luong_general:
      key_ = Linear(scope / "w_general", hidden, hidden, plain);
      break;
    case RnnScore::concat:
    case RnnScore::luong_concat:
      concat_ =
          (scope / "w_concat").parameter("weight", {size, 2 * hidden}, Init::fan_in(2 * hidden));
      score_vector_ = Linear(scope / "v_score", size, 1, plain);
      break;
  }
}

/// W [q; k] = W_q q + W_k k: the query's half of the matrix, or the key's.
Tensor RnnAttention::half(const Tensor& x, bool of_key) const {
  const int64_t hidden = x.size(-1);
  const int64_t first = of_key ? hidden : 0;
  return linear(x, contiguous(slice(concat_, 1, first, first + hidden)), {});
}

Tensor RnnAttention::prepare(const Tensor& memory) const {
  if (concat_.defined()) {
    return half(memory, true);
  }
  return key_.defined() ? key_(memory) : memory;
}

Tensor RnnAttention::weights(const Tensor& query, const Tensor& prepared,
                             const Tensor& masked) const {
  const int64_t batch = prepared.size(0);
  const int64_t length = prepared.size(1);
  Tensor scores;
  if (score_vector_.defined()) {
    const Tensor asked = concat_.defined() ? half(query, false) : query_(query);
    scores = score_vector_(tanh(add(unsqueeze(asked, 1), prepared)));
  } else {
    scores = matmul(prepared, unsqueeze(query, 2));
  }
  scores = reshape(scores, {batch, length});
  if (masked.defined()) {
    scores = masked_fill(scores, masked, -std::numeric_limits<double>::infinity());
  }
  return softmax(scores);
}

Tensor RnnAttention::context(const Tensor& weights, const Tensor& memory) {
  return squeeze(matmul(unsqueeze(weights, 1), memory), 1);
}

void show_weights(const Tensor& weights, const Tensor& memory) {
  if (Observer::current() == nullptr) {
    return;
  }
  const NoGrad no_grad;
  const Tensor pattern = observe("hook_pattern", unsqueeze(weights, 1));
  // softmax(log w) = w: zero queries and keys with log w as bias are that very attention.
  AttentionOptions options;
  options.bias = log(pattern);
  options.scale = 1.0;
  const int64_t batch = weights.size(0);
  attention(Tensor::zeros({batch, 1, weights.size(1), 1}),
            Tensor::zeros({batch, 1, weights.size(2), 1}), unsqueeze(memory, 1), options);
}

}  // namespace heed
