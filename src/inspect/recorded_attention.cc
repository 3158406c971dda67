#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/inspect.h"
#include "heed/ops.h"

namespace heed {
namespace {

constexpr int64_t kRows = 64;  // rows of weights that exist at a time, for each tile

Tensor one_head(const Tensor& x, int64_t sequence, int64_t head) {
  return slice(slice(x, 0, sequence, sequence + 1), 1, head, head + 1).detach().contiguous();
}

void check_head(const RecordedAttention& attention, int64_t sequence, int64_t head) {
  check(sequence >= 0 && sequence < attention.batch() && head >= 0 && head < attention.heads(),
        "weights", "sequence {}, head {} of '{}', which has {} sequences and {} heads", sequence,
        head, attention.place.name, attention.batch(), attention.heads());
}

/// Rows [begin, end) of a head's weights up to the last key that any of them sees, f32.
Tensor seen_part(const RecordedAttention& attention, int64_t sequence, int64_t head, int64_t begin,
                 int64_t end) {
  int64_t keys = attention.keys();
  if (std::holds_alternative<Causal>(attention.record.options.position)) {
    keys = std::clamp<int64_t>(end + attention.offset(), 0, keys);
  }
  return attention.record.weights(sequence, head, begin, end, 0, keys).to(DType::f32).contiguous();
}

/// The cell that position `at` of `dim` falls into, where cell c holds [c * dim / cells,
/// (c + 1) * dim / cells).
int64_t cell_of(int64_t at, int64_t dim, int64_t cells) { return ((at + 1) * cells - 1) / dim; }

/// Largest of each group of columns.
void pool_row(const float* row, int64_t seen, int64_t keys, int64_t columns, float* best) {
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t end = std::min((c + 1) * keys / columns, seen);
    for (int64_t j = c * keys / columns; j < end; ++j) {
      best[c] = std::max(best[c], row[j]);
    }
  }
}

/// The `kept` largest of a row and where they are, largest first; of equals the first. Weights are
/// above 0, so that what is not filled stays 0.
void keep_largest(const float* row, int64_t keys, int64_t kept, int64_t* index, float* weight) {
  int64_t filled = 0;
  for (int64_t j = 0; j < keys; ++j) {
    if (!(row[j] > 0) || (filled == kept && row[j] <= weight[kept - 1])) {
      continue;
    }
    filled = std::min(filled + 1, kept);
    int64_t at = filled - 1;
    for (; at > 0 && weight[at - 1] < row[j]; --at) {
      weight[at] = weight[at - 1];
      index[at] = index[at - 1];
    }
    weight[at] = row[j];
    index[at] = j;
  }
}

}  // namespace

int64_t RecordedAttention::offset() const {
  if (const auto* causal = std::get_if<Causal>(&record.options.position)) {
    return causal->offset;
  }
  if (const auto* window = std::get_if<Window>(&record.options.position)) {
    return window->offset;
  }
  return 0;
}

Tensor RecordedAttention::pooled(int64_t sequence, int64_t head, int64_t max_rows,
                                 int64_t max_columns) const {
  check_head(*this, sequence, head);
  check(max_rows > 0 && max_columns > 0, "pooled", "{} x {} cells asked for", max_rows,
        max_columns);
  const int64_t rows = std::min(max_rows, queries()), columns = std::min(max_columns, keys());
  if (rows == queries() && columns == keys()) {
    return record.weights(sequence, head).to(DType::f32).contiguous();
  }
  // A tile of the kernel's rows at a time, as it computes them together; what they show is merged,
  // as one cell may lie in two tiles. The largest does not depend on the order.
  Tensor result = Tensor::zeros({rows, columns});
  std::mutex merging;
  parallel_for((queries() + kRows - 1) / kRows, [&](int64_t task) {
    const int64_t begin = task * kRows, end = std::min(begin + kRows, queries());
    const Tensor tile = seen_part(*this, sequence, head, begin, end);
    const int64_t first = cell_of(begin, queries(), rows), last = cell_of(end - 1, queries(), rows);
    std::vector<float> best(static_cast<size_t>((last - first + 1) * columns), 0.0F);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t cell = cell_of(row, queries(), rows) - first;
      pool_row(tile.data<float>() + (row - begin) * tile.size(1), tile.size(1), keys(), columns,
               best.data() + cell * columns);
    }
    float* cells = result.data<float>() + first * columns;
    const std::lock_guard lock(merging);
    for (size_t i = 0; i < best.size(); ++i) {
      cells[i] = std::max(cells[i], best[i]);
    }
  });
  return result;
}

std::pair<Tensor, Tensor> RecordedAttention::strongest(int64_t sequence, int64_t head,
                                                       int64_t count) const {
  check_head(*this, sequence, head);
  check(count > 0, "strongest", "{} keys asked for", count);
  const int64_t kept = std::min(count, keys());
  const Tensor index = Tensor::zeros({queries(), kept}, DType::i64);
  const Tensor weight = Tensor::zeros({queries(), kept});
  parallel_ranges(queries(), kRows, [&](int64_t begin, int64_t end) {
    const Tensor tile = seen_part(*this, sequence, head, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      keep_largest(tile.data<float>() + (row - begin) * tile.size(1), tile.size(1), kept,
                   index.data<int64_t>() + row * kept, weight.data<float>() + row * kept);
    }
  });
  return {index, weight};
}

AttentionSteps RecordedAttention::steps(int64_t sequence, int64_t head) const {
  check_head(*this, sequence, head);
  check(queries() * keys() <= int64_t{1} << 24, "steps",
        "{} x {} scores are too many to show every step of", queries(), keys());
  const AttentionRecord own = record.part(sequence, head, 0, queries(), 0, keys());
  AttentionSteps steps = attention_steps(own.q, own.k, own.v, own.options);
  if (own.global_rows.defined()) {  // some rows read other values
    steps.output = own.output;
  }
  return steps;
}

AttentionPatterns RecordedAttention::patterns(int64_t sequence, int64_t head) const {
  check_head(*this, sequence, head);
  const std::vector<double> seen =
      slice(slice(record.row_inverse, 0, sequence, sequence + 1), 1, head, head + 1).to_doubles();
  const int64_t tiles = (queries() + kRows - 1) / kRows;
  std::vector<AttentionPatterns> parts(static_cast<size_t>(tiles));
  parallel_for(tiles, [&](int64_t tile) {
    const int64_t begin = tile * kRows, end = std::min(begin + kRows, queries());
    parts[static_cast<size_t>(tile)] =
        attention_patterns(record.weights(sequence, head, begin, end, 0, keys()), offset() + begin);
  });
  // Each part is a mean over its rows that see a key.
  const auto rows_in = [&seen](int64_t begin, int64_t end) {
    return static_cast<double>(
        std::count_if(seen.begin() + begin, seen.begin() + end, [](double x) { return x > 0; }));
  };
  const double rows = std::max(rows_in(0, queries()), 1.0);
  AttentionPatterns mean;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const AttentionPatterns& part = parts[static_cast<size_t>(tile)];
    const double share = rows_in(tile * kRows, std::min((tile + 1) * kRows, queries())) / rows;
    mean.diagonal += share * part.diagonal;
    mean.previous += share * part.previous;
    mean.first += share * part.first;
    mean.local += share * part.local;
    mean.uniform += share * part.uniform;
    mean.entropy += share * part.entropy;
    mean.mean_distance += share * part.mean_distance;
  }
  return mean;
}

std::vector<double> RecordedAttention::output_shares(int64_t sequence) const {
  check_head(*this, sequence, 0);
  std::vector<double> norms;
  for (int64_t head = 0; head < heads(); ++head) {
    double sum = 0;
    for (const double value : one_head(record.output, sequence, head).to_doubles()) {
      sum += value * value;
    }
    norms.push_back(std::sqrt(sum));
  }
  const double total = std::accumulate(norms.begin(), norms.end(), 0.0);
  for (double& norm : norms) {
    norm = total > 0 ? norm / total : 0.0;
  }
  return norms;
}

Tensor RecordedAttention::value_weighted(int64_t sequence, int64_t head) const {
  check_head(*this, sequence, head);
  const NoGrad no_grad;
  const auto norms_of = [&](const Tensor& values) {
    const Tensor v = one_head(values, sequence, head / (heads() / values.size(1)));
    return reshape(sqrt(sum(mul(v, v), -1)), {1, keys()});
  };
  Tensor norms = norms_of(record.v);
  if (record.global_rows.defined()) {
    const Tensor global = reshape(
        slice(record.global_rows, 0, sequence, sequence + 1).to(norms.dtype()), {queries(), 1});
    norms = add(mul(sub(norms_of(record.global_v), norms), global), norms);
  }
  return mul(record.weights(sequence, head).to(norms.dtype()), norms);
}

Tensor RecordedAttention::gradient_map(int64_t sequence, int64_t head) const {
  check_head(*this, sequence, head);
  check(probe.defined() && probe.grad().defined(), "gradient_map",
        "no gradient reached '{}': record with gradients and call backward() first", place.name);
  const NoGrad no_grad;
  // The gradient of a weight is the gradient of the output times the value: dP = dO · Vᵀ.
  const int64_t width = record.v.size(3);
  const Tensor gradient = transpose(reshape(probe.grad(), {batch(), queries(), heads(), width}), 1,
                                    2);  // [B, H, Tq, Dv]
  const Tensor v = one_head(record.v, sequence, head / (heads() / record.v.size(1)));
  const Tensor slope = matmul(one_head(gradient, sequence, head), transpose(v));
  return mul(record.weights(sequence, head).to(v.dtype()), reshape(slope, {queries(), keys()}));
}

std::vector<HeadSummary> head_table(const Recorder& recorder, int64_t sequence) {
  std::vector<HeadSummary> table;
  for (const RecordedAttention& attention : recorder.attentions()) {
    const std::vector<double> shares = attention.output_shares(sequence);
    for (int64_t head = 0; head < attention.heads(); ++head) {
      HeadSummary summary;
      summary.place = attention.place;
      summary.head = head;
      summary.patterns = attention.patterns(sequence, head);
      summary.pattern = name_of_pattern(summary.patterns);
      summary.output_share = shares[static_cast<size_t>(head)];
      table.push_back(std::move(summary));
    }
  }
  return table;
}

Tensor attention_rollout(const Recorder& recorder, const std::string& kind, int64_t sequence) {
  const NoGrad no_grad;
  Tensor result;
  for (const RecordedAttention& attention : recorder.attentions()) {
    if (attention.place.kind != kind) {
      continue;
    }
    const int64_t length = attention.queries();
    check(length == attention.keys(), "attention_rollout",
          "needs as many queries as keys; '{}' has {} and {}", attention.place.name, length,
          attention.keys());
    check(length <= 4096, "attention_rollout", "{} tokens are too many; at most 4,096", length);
    const Tensor mixed = Tensor::zeros({length, length});
    float* out = mixed.data<float>();
    const float share = 0.5F / static_cast<float>(attention.heads());
    for (int64_t head = 0; head < attention.heads(); ++head) {
      const Tensor weights = attention.record.weights(sequence, head).to(DType::f32);
      const float* w = weights.data<float>();
      for (int64_t i = 0; i < length * length; ++i) {
        out[i] += share * w[i];
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      out[i * length + i] += 0.5F;
    }
    result = result.defined() ? matmul(mixed, result) : mixed;
  }
  check(result.defined(), "attention_rollout", "no attention of kind '{}' was recorded", kind);
  return result;
}

}  // namespace heed
