#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "heed/ops.h"
#include "heed/transformer.h"
#include "nn/heads.h"
#include "ops/attention_problem.h"
#include "ops/relative.h"

namespace heed {

namespace {

/// Rows of queries from `first` on: the formula in plain steps where the values have a part by
/// distance, for that needs the weights themselves.
Tensor shaw_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& relative_key,
                 const Tensor& relative_value, const AttentionOptions& options, int64_t first) {
  AttentionOptions mine = options;
  const AttentionShape shape = check_attention(q, k, v, options);
  const double scale = attention_scale(shape, options);
  if (relative_key.defined()) {
    const Tensor products = linear(q, relative_key, Tensor());  // [B, H, Tq, 2m+1]
    mine.bias = spread_distances(products, shape.keys, first) * scale;
  }
  if (!relative_value.defined()) {
    return attention(q, k, v, mine);
  }
  Tensor scores = matmul(q, transpose(k)) * scale;
  if (mine.bias.defined()) {
    scores = scores + mine.bias;
  }
  const Tensor hidden = hidden_mask(shape, options);
  if (hidden.defined()) {
    scores = masked_fill(scores, hidden, -std::numeric_limits<double>::infinity());
  }
  const Tensor weights = dropout(softmax(scores), options.dropout, options.training,
                                 {options.first_example, shape.batch, {}});
  const Tensor by_distance = collect_distances(weights, relative_value.size(0) / 2, first);
  return matmul(weights, v) + matmul(by_distance, relative_value);
}

/// How many distances key - query there are.
int64_t distances_of(int64_t queries, int64_t keys) {
  return std::max<int64_t>(queries + keys - 1, 0);
}

}  // namespace

Tensor shaw_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& relative_key,
                      const Tensor& relative_value, const AttentionOptions& options) {
  constexpr const char* kOp = "shaw_attention";
  const AttentionShape shape = check_attention(q, k, v, options);
  check(!options.bias.defined(), kOp, "takes no bias of its own");
  for (const Tensor& table : {relative_key, relative_value}) {
    if (table.defined()) {
      check(table.rank() == 2 && table.size(0) % 2 == 1, kOp,
            "relative_key and relative_value must be [2·reach + 1, depth], not {}", table.shape());
    }
  }
  check(!relative_value.defined() || shape.heads == shape.num_kv_heads, kOp,
        "relative values want as many key heads as query heads");
  const auto inputs = [&](int64_t begin, int64_t end) {
    std::vector<Tensor> given{slice(q, 2, begin, end), k, v};
    for (const Tensor& table : {relative_key, relative_value}) {
      if (table.defined()) {
        given.push_back(table);
      }
    }
    return given;
  };
  const bool by_key = relative_key.defined();
  const bool by_value = relative_value.defined();
  const auto compute = [options, by_key, by_value](int64_t begin, int64_t end,
                                                   const std::vector<Tensor>& in) {
    return shaw_rows(in[0], in[1], in[2], by_key ? in[3] : Tensor(),
                     by_value ? in.back() : Tensor(), for_rows(options, begin, end), begin);
  };
  const auto in_chunks = [&] {
    return in_query_chunks(shape, options.chunk, q.dtype(), inputs, compute);
  };
  if (Observer::current() == nullptr || by_value || shape.queries <= options.chunk) {
    return in_chunks();
  }
  // An observer sees one attention, not its chunks.
  AttentionOptions shown = options;
  shown.dropout = 0.0;
  return shown_as_one([&] { return shaw_rows(q, k, v, relative_key, Tensor(), shown, 0); },
                      in_chunks);
}

int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t first = 0;
  int64_t away = -distance;  // keys in the past count up
  if (bidirectional) {
    buckets /= 2;
    first = distance > 0 ? buckets : 0;
    away = std::abs(distance);
  }
  away = std::max<int64_t>(away, 0);
  const int64_t exact = buckets / 2;
  if (away < exact) {
    return first + away;
  }
  // In f32 like the models that were trained with it: the buckets' edges are where f32 puts them.
  const float share =
      std::log(static_cast<float>(away) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto step = static_cast<int64_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(exact + step, buckets - 1);
}

Tensor t5_buckets(int64_t queries, int64_t keys, int64_t offset, bool bidirectional,
                  int64_t buckets, int64_t max_distance) {
  check(buckets >= 4 && max_distance > buckets / 2, "t5_buckets",
        "{} buckets up to distance {}: give at least 4 buckets and a greater distance", buckets,
        max_distance);
  Tensor result = Tensor::empty({queries, keys}, DType::i64);
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      result.data<int64_t>()[i * keys + j] =
          t5_bucket(j - i - offset, bidirectional, buckets, max_distance);
    }
  }
  return result;
}

Tensor t5_bias(const Tensor& table, int64_t queries, int64_t keys, int64_t offset,
               bool bidirectional, int64_t max_distance) {
  check(table.rank() == 2, "t5_bias", "the table {} must be [buckets, heads]", table.shape());
  const Tensor buckets = reshape(t5_buckets(1, distances_of(queries, keys), queries - 1 + offset,
                                            bidirectional, table.size(0), max_distance),
                                 {-1});
  const Tensor values = transpose(embedding(table, buckets), 0, 1);
  // Attention reads f32; a copy in another type would hold every pair.
  return by_distance(cast(values, table.dtype() == DType::f64 ? DType::f64 : DType::f32), queries,
                     keys);
}

Tensor alibi_slopes(int64_t heads) {
  check(heads > 0, "alibi_slopes", "{} heads", heads);
  int64_t power = 1;
  while (power * 2 <= heads) {
    power *= 2;
  }
  Tensor slopes = Tensor::empty({heads});
  for (int64_t h = 0; h < heads; ++h) {
    // Heads beyond a power of two take every other slope of twice as many heads.
    const double exponent =
        h < power ? static_cast<double>(h + 1) / static_cast<double>(power)
                  : (static_cast<double>(h - power) + 0.5) / static_cast<double>(power);
    slopes.data<float>()[h] = static_cast<float>(std::exp2(-8.0 * exponent));
  }
  return slopes;
}

Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, int64_t offset) {
  const Tensor slopes = alibi_slopes(heads);
  const int64_t distances = distances_of(queries, keys);
  Tensor table = Tensor::empty({heads, distances});
  float* out = table.data<float>();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t at = 0; at < distances; ++at) {
      *out++ = -slopes.data<float>()[h] * static_cast<float>(std::abs(at - queries + 1 - offset));
    }
  }
  return by_distance(table, queries, keys);
}

}  // namespace heed
