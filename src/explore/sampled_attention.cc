#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "explore/attention_parts.h"
#include "heed/ops.h"

namespace heed::explore {
namespace {

constexpr int64_t kKeys = 2048;  // whose scores exist at a time
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// The largest value of f(key) over the keys of [begin, end) that a query sees.
template <class Value>
float largest_seen(const SeenKeys& seen, int64_t begin, int64_t end, const Value& value) {
  float most = kNone;
  for (int64_t j = begin; j < std::min(end, seen.prefix); ++j) {
    most = std::max(most, value(j));
  }
  const int64_t from = std::max({begin, seen.begin, seen.prefix});
  for (int64_t j = from; j < std::min(end, seen.end); ++j) {
    most = std::max(most, value(j));
  }
  return most;
}

/// Scaled scores of some queries of one head, a chunk of keys at a time.
class SampledScores {
 public:
  SampledScores(const RecordedAttention& attention, int64_t head, std::span<const int64_t> rows)
      : attention_(attention), head_(head), rows_(rows) {
    const Tensor& q = attention.record.q;
    const int64_t depth = q.size(3);
    const auto count = static_cast<int64_t>(rows.size());
    q_ = Tensor::empty({count, depth});
    const Tensor all = head_rows(q, head, 0, q.size(2));
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(all.data<float>() + rows[static_cast<size_t>(i)] * depth, depth,
                  q_.data<float>() + i * depth);
    }
    q_ = mul(q_, scale_of(attention)).contiguous();
    const Tensor lse = attention.record.lse();
    const std::vector<double> own =
        slice(slice(lse, 0, 0, 1), 1, head, head + 1).contiguous().to_doubles();
    for (const int64_t row : rows) {
      seen_.push_back(seen_keys(attention, row));
      lse_.push_back(static_cast<float>(own[static_cast<size_t>(row)]));
    }
  }

  /// Scores [rows, keys] of [begin, end), soft-capped and with what a pattern adds; what positions
  /// hide is left as it is. Undefined where no query sees a key by the pattern.
  Tensor at(int64_t begin, int64_t end) const {
    const auto& pattern = attention_.record.options.pattern;
    Tensor added = pattern ? pattern->part(0, head_, rows_, begin, end) : Tensor();
    if (pattern && !added.defined()) {
      return {};
    }
    const Tensor k = head_rows(attention_.record.k, key_head(attention_, head_), begin, end);
    if (added.defined()) {
      add_products(k, added);
      return added;
    }
    Tensor scores = matmul(q_, transpose(k, 0, 1)).contiguous();
    const double cap = attention_.record.options.softcap;
    scores = cap > 0 ? mul(tanh(mul(scores, 1.0 / cap)), cap).contiguous() : scores;
    add_bias(begin, scores);
    return scores;
  }
  /// Whether any of the queries sees a key of [begin, end).
  bool any(int64_t begin, int64_t end) const {
    return std::any_of(seen_.begin(), seen_.end(), [&](const SeenKeys& each) {
      return begin < each.prefix || (begin < each.end && end > each.begin);
    });
  }
  const SeenKeys& seen(size_t i) const { return seen_[i]; }
  float lse(size_t i) const { return lse_[i]; }

 private:
  /// Adds the products of those rows that see a key to what a pattern adds.
  void add_products(const Tensor& k, const Tensor& added) const {
    const int64_t keys = k.size(0);
    std::vector<int64_t> seeing;
    for (int64_t i = 0; i < added.size(0); ++i) {
      const float* row = added.data<float>() + i * keys;
      if (std::any_of(row, row + keys, [](float x) { return x != kNone; })) {
        seeing.push_back(i);
      }
    }
    const auto count = static_cast<int64_t>(seeing.size());
    const Tensor rows = index_rows(q_, Tensor::from(seeing, {count}));
    const Tensor products = matmul(rows, transpose(k, 0, 1)).contiguous();
    const double cap = attention_.record.options.softcap;
    for (int64_t r = 0; r < count; ++r) {
      const float* in = products.data<float>() + r * keys;
      float* out = added.data<float>() + seeing[static_cast<size_t>(r)] * keys;
      for (int64_t j = 0; j < keys; ++j) {
        out[j] += cap > 0 ? static_cast<float>(cap * std::tanh(in[j] / cap)) : in[j];
      }
    }
  }

  /// Adds a bias tensor's elements for the keys from `begin` on.
  void add_bias(int64_t begin, const Tensor& scores) const {
    const Tensor& bias = attention_.record.options.bias;
    if (!bias.defined()) {
      return;
    }
    const Tensor& q = attention_.record.q;
    const Tensor all = expand(bias, {q.size(0), q.size(1), q.size(2), attention_.keys()});
    const Shape& strides = all.strides();
    const int64_t keys = scores.size(1), stride = strides[3];
    parallel_for(scores.size(0), [&](int64_t i) {
      const float* in = all.data<float>() + head_ * strides[1] +
                        rows_[static_cast<size_t>(i)] * strides[2] + begin * stride;
      float* out = scores.data<float>() + i * keys;
      if (stride == 1) {  // as biases by distance are; the compiler makes vectors of it
        for (int64_t j = 0; j < keys; ++j) {
          out[j] += in[j];
        }
        return;
      }
      for (int64_t j = 0; j < keys; ++j) {
        out[j] += in[j * stride];
      }
    });
  }

  const RecordedAttention& attention_;
  int64_t head_;
  std::span<const int64_t> rows_;
  Tensor q_;
  std::vector<SeenKeys> seen_;
  std::vector<float> lse_;
};

/// Adds this head's part of the weights of [begin, end) to `sums` [rows, end - begin].
void add_weights(const SampledScores& scores, int64_t begin, int64_t end, float share,
                 const Tensor& sums) {
  const Tensor values = scores.at(begin, end);
  if (!values.defined()) {
    return;
  }
  const int64_t width = end - begin;
  parallel_for(sums.size(0), [&](int64_t r) {
    const auto i = static_cast<size_t>(r);
    const float* in = values.data<float>() + r * width - begin;
    float* out = sums.data<float>() + r * width - begin;
    largest_seen(scores.seen(i), begin, end, [&](int64_t j) {
      out[j] += share * std::exp(in[j] - scores.lse(i));
      return 0.0F;
    });
  });
}

/// log ‖v_j‖ of the keys of [begin, end).
std::vector<float> log_norms(const RecordedAttention& attention, const Tensor& values, int64_t head,
                             int64_t begin, int64_t end) {
  const Tensor v = head_rows(values, key_head(attention, head), begin, end);
  std::vector<float> norms;
  for (const double x : sum(mul(v, v), -1).to_doubles()) {
    norms.push_back(static_cast<float>(0.5 * std::log(x)));
  }
  return norms;
}

/// The queries that stand for each row of cells, `per_cell` of each.
std::vector<int64_t> sampled_rows(const TilePlace& place, int64_t per_cell) {
  std::vector<int64_t> rows;
  for (int64_t begin = place.row_begin; begin < place.row_end; begin += place.cell) {
    const int64_t count = std::min(place.cell, place.row_end - begin);
    for (int64_t i = 0; i < per_cell; ++i) {
      rows.push_back(begin + i * count / per_cell);
    }
  }
  return rows;
}

/// Weights, or what they carry, of one head: the exponential is taken of each cell's largest score
/// only, because it does not change their order.
void fill_by_scores(const RecordedAttention& attention, const std::string& what, int64_t head,
                    const TilePlace& place, int64_t per_cell, const Tensor& values) {
  const std::vector<int64_t> rows = sampled_rows(place, per_cell);
  const SampledScores scores(attention, head, rows);
  const int64_t columns = values.size(1);
  const int64_t step = std::max(kKeys, place.cell);
  for (int64_t begin = place.key_begin; begin < place.key_end; begin += step) {
    const int64_t end = std::min(begin + step, place.key_end);
    if (!scores.any(begin, end)) {
      continue;
    }
    const Tensor part = scores.at(begin, end);
    if (!part.defined()) {
      continue;
    }
    const auto norms_of = [&](const Tensor& values) {
      return what == "value_weighted" && values.defined()
                 ? log_norms(attention, values, head, begin, end)
                 : std::vector<float>(static_cast<size_t>(end - begin));
    };
    const std::vector<float> norms = norms_of(attention.record.v);
    const std::vector<float> global_norms = norms_of(attention.record.global_v);
    parallel_for(values.size(0), [&](int64_t r) {
      for (int64_t i = r * per_cell; i < (r + 1) * per_cell; ++i) {
        const auto at = static_cast<size_t>(i);
        const float* row = part.data<float>() + i * (end - begin) - begin;
        const bool global = &attention.record.values_of(0, rows[at]) == &attention.record.global_v;
        const float* norm = (global ? global_norms : norms).data() - begin;
        for (int64_t from = begin; from < end; from += place.cell) {
          const float most = largest_seen(scores.seen(at), from, std::min(from + place.cell, end),
                                          [&](int64_t j) { return row[j] + norm[j]; });
          float& cell = values.data<float>()[r * columns + (from - place.key_begin) / place.cell];
          cell = std::max(cell, what == "scores" ? most : std::exp(most - scores.lse(at)));
        }
      }
    });
  }
}

/// The mean of the heads: its order is known only after the exponentials.
void fill_by_mean(const RecordedAttention& attention, const TilePlace& place, int64_t per_cell,
                  const Tensor& values) {
  const std::vector<int64_t> rows = sampled_rows(place, per_cell);
  std::vector<SampledScores> heads;
  for (int64_t head = 0; head < attention.heads(); ++head) {
    heads.emplace_back(attention, head, rows);
  }
  const int64_t columns = values.size(1);
  const int64_t step = std::max(kKeys, place.cell);
  for (int64_t begin = place.key_begin; begin < place.key_end; begin += step) {
    const int64_t end = std::min(begin + step, place.key_end);
    if (!heads.front().any(begin, end)) {
      continue;
    }
    const Tensor sums = Tensor::zeros({static_cast<int64_t>(rows.size()), end - begin});
    for (const SampledScores& each : heads) {
      add_weights(each, begin, end, 1.0F / static_cast<float>(heads.size()), sums);
    }
    parallel_for(values.size(0), [&](int64_t r) {
      for (int64_t i = r * per_cell; i < (r + 1) * per_cell; ++i) {
        const float* row = sums.data<float>() + i * (end - begin) - begin;
        for (int64_t j = begin; j < end; ++j) {
          float& cell = values.data<float>()[r * columns + (j - place.key_begin) / place.cell];
          cell = std::max(cell, row[j]);
        }
      }
    });
  }
}

}  // namespace

bool can_be_sampled(const RecordedAttention& attention) {
  const AttentionOptions& options = attention.record.options;
  const bool readable =
      !options.bias.defined() || (options.bias.dtype() == DType::f32 && options.pattern == nullptr);
  return readable && !options.mask.defined() && !options.key_padding.defined();
}

SeenKeys seen_keys(const RecordedAttention& attention, int64_t query) {
  const int64_t keys = attention.keys();
  SeenKeys seen{0, keys, 0};
  if (const auto* causal = std::get_if<Causal>(&attention.record.options.position)) {
    seen.end = std::clamp<int64_t>(query + causal->offset + 1, 0, keys);
  } else if (const auto* window = std::get_if<Window>(&attention.record.options.position)) {
    const int64_t at = query + window->offset;
    seen.begin = window->left < 0 ? 0 : std::clamp<int64_t>(at - window->left, 0, keys);
    seen.end = window->right < 0 ? keys : std::clamp<int64_t>(at + window->right + 1, 0, keys);
    seen.prefix = std::min(window->prefix, keys);
  }
  return seen;
}

Tensor sampled_weights(const RecordedAttention& attention, int64_t head,
                       std::span<const int64_t> rows) {
  const int64_t keys = attention.keys();
  Tensor weights = Tensor::zeros({static_cast<int64_t>(rows.size()), keys});
  const SampledScores scores(attention, head, rows);
  for (int64_t begin = 0; begin < keys; begin += kKeys) {
    const int64_t end = std::min(begin + kKeys, keys);
    if (!scores.any(begin, end)) {
      continue;
    }
    const Tensor part = Tensor::zeros({weights.size(0), end - begin});
    add_weights(scores, begin, end, 1.0F, part);
    for (int64_t r = 0; r < weights.size(0); ++r) {
      std::copy_n(part.data<float>() + r * (end - begin), end - begin,
                  weights.data<float>() + r * keys + begin);
    }
  }
  return weights;
}

Tensor sampled_tile(const RecordedAttention& attention, const std::string& what, int64_t head,
                    const TilePlace& place, int64_t per_cell) {
  const int64_t rows = (place.row_end - place.row_begin + place.cell - 1) / place.cell;
  const int64_t columns = (place.key_end - place.key_begin + place.cell - 1) / place.cell;
  Tensor values = Tensor::full({rows, columns}, what == "scores" ? kNone : 0.0F);
  if (head < 0) {
    fill_by_mean(attention, place, per_cell, values);
  } else {
    fill_by_scores(attention, what, head, place, per_cell, values);
  }
  return values;
}

}  // namespace heed::explore
