#include <fmt/format.h>

#include <cmath>

#include "explore/trace.h"
#include "heed/ops.h"

namespace heed::explore {
namespace {

bool is_at(const Intervention& change, const AttentionPlace& place) {
  return change.kind == place.kind && change.layer == place.layer;
}

/// rows [N, heads * width] with one head multiplied.
Tensor scaled_head(const Tensor& rows, int64_t heads, int64_t head, double scale) {
  if (head < 0 || head >= heads) {
    throw Failure(404, "not_found", fmt::format("there is no head {}; there are {}", head, heads),
                  "interventions");
  }
  const int64_t width = rows.size(-1) / heads;
  std::vector<double> factors(static_cast<size_t>(rows.size(-1)), 1.0);
  for (int64_t i = head * width; i < (head + 1) * width; ++i) {
    factors[static_cast<size_t>(i)] = scale;
  }
  return mul(rows, Tensor::from(factors, {rows.size(-1)}).to(rows.dtype()));
}

void check_edge(const Intervention& change, int64_t queries, int64_t keys) {
  if (change.query >= queries || change.key >= keys) {
    throw Failure(400, "invalid",
                  fmt::format("there is no edge from {} to {}; there are {} queries and {} keys",
                              change.query, change.key, queries, keys),
                  "interventions");
  }
}

/// The weight of an edge in every head.
std::vector<double> edge_weights(const RecordedAttention& attention, const Intervention& change) {
  check_edge(change, attention.queries(), attention.keys());
  std::vector<double> weights;
  for (int64_t head = 0; head < attention.heads(); ++head) {
    weights.push_back(
        attention.record
            .weights(0, head, change.query, change.query + 1, change.key, change.key + 1)
            .to_doubles()
            .front());
  }
  return weights;
}

/// The heads' outputs where one weight is multiplied, or replaced by `others` (one for each head).
/// The row is not renormalised.
Tensor changed_edge(const Tensor& rows, const AttentionRecord& record, const Intervention& change,
                    const std::vector<double>& others) {
  const int64_t heads = record.q.size(1), width = record.v.size(3);
  check_edge(change, record.q.size(2), record.k.size(2));
  const Tensor result = rows.to(DType::f32).contiguous().clone();
  for (int64_t head = 0; head < heads; ++head) {
    if (change.head >= 0 && change.head != head) {
      continue;
    }
    const double weight =
        record.weights(0, head, change.query, change.query + 1, change.key, change.key + 1)
            .to_doubles()
            .front();
    const double wanted =
        others.empty() ? change.scale * weight : others.at(static_cast<size_t>(head));
    const int64_t shared = head / (heads / record.v.size(1));
    const std::vector<double> value =
        slice(slice(slice(record.values_of(0, change.query), 0, 0, 1), 1, shared, shared + 1), 2,
              change.key, change.key + 1)
            .to_doubles();
    float* out = result.data<float>() + (change.query * heads + head) * width;
    for (int64_t i = 0; i < width; ++i) {
      out[i] += static_cast<float>((wanted - weight) * value[static_cast<size_t>(i)]);
    }
  }
  return result.to(rows.dtype());
}

/// A pattern, or none, with one edge cut.
class CutPattern final : public ScorePattern {
 public:
  CutPattern(std::shared_ptr<const ScorePattern> before, const Intervention& change)
      : before_(std::move(before)), head_(change.head), query_(change.query), key_(change.key) {}

  Tensor part(int64_t batch, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    const auto count = static_cast<int64_t>(rows.size()), keys = key_end - key_begin;
    Tensor result = before_ ? before_->part(batch, head, rows, key_begin, key_end)
                            : Tensor::zeros({count, keys});
    if (!result.defined() || (head_ >= 0 && head_ != head) || key_ < key_begin || key_ >= key_end) {
      return result;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (rows[static_cast<size_t>(i)] == query_) {
        result.data<float>()[i * keys + key_ - key_begin] = -INFINITY;
      }
    }
    return result;
  }

 private:
  std::shared_ptr<const ScorePattern> before_;
  int64_t head_, query_, key_;
};

/// A hook's rows with one of them changed.
Tensor changed_row(const Tensor& value, int64_t count, const Intervention& change) {
  const int64_t position = change.position.value_or(0);
  if (position < 0 || position >= count) {
    throw Failure(400, "invalid", fmt::format("'position' is {}; there are {}", position, count),
                  "interventions");
  }
  const Tensor given = as_rows(value, count);
  const Tensor rows = given.clone();
  const int64_t width = rows.size(1);
  float* row = rows.data<float>() + position * width;
  for (int64_t i = 0; i < width; ++i) {
    if (change.mode == "scale") {
      row[i] *= static_cast<float>(change.scale);
      continue;
    }
    double sum = 0;
    for (int64_t r = 0; change.mode == "mean" && r < count; ++r) {
      sum += given.data<float>()[r * width + i];
    }
    row[i] = static_cast<float>(sum / static_cast<double>(count));
  }
  return from_rows(rows, value);
}

/// A hook's rows, or those of one head of them, taken from another pass.
Tensor patched(const Tensor& value, int64_t count, const Intervention& change, const Tensor& from,
               int64_t heads) {
  const Tensor rows = as_rows(value, count).clone();
  const int64_t width = rows.size(1);
  if (!change.position && from.size(0) != count) {
    throw Failure(400, "invalid",
                  fmt::format("the other input has {} positions, not {}", from.size(0), count),
                  "interventions");
  }
  const int64_t part = change.head >= 0 ? width / heads : width;
  const int64_t first = change.head >= 0 ? change.head * part : 0;
  for (int64_t r = 0; r < count; ++r) {
    if (change.position && r != *change.position) {
      continue;
    }
    const int64_t other = change.position ? change.from_position.value_or(r) : r;
    if (other < 0 || other >= from.size(0) || from.size(1) != width) {
      throw Failure(400, "invalid", "the other pass has no such row", "interventions");
    }
    std::copy_n(from.data<float>() + other * width + first, part,
                rows.data<float>() + r * width + first);
  }
  return from_rows(rows, value);
}

}  // namespace

void Trace::apply_interventions(Watcher& watcher) const {
  if (interventions_.empty()) {
    return;
  }
  // Weights of another pass, by the intervention that wants them.
  std::map<const Intervention*, std::vector<double>> others;
  for (const Intervention& each : interventions_) {
    if (each.type == Intervention::Type::edge && each.mode == "patch") {
      others[&each] = edge_weights(each.from->attention(each.kind, each.layer), each);
    }
  }
  watcher.change_heads = [this, others](const AttentionPlace& place, const AttentionRecord& record,
                                        const Tensor& rows) {
    Tensor result = rows;
    for (const Intervention& each : interventions_) {
      if (each.type == Intervention::Type::head && is_at(each, place)) {
        result = scaled_head(result, record.q.size(1), each.head, each.scale);
      } else if (each.type == Intervention::Type::edge && each.mode != "cut" &&
                 is_at(each, place)) {
        const auto other = others.find(&each);
        result = changed_edge(result, record, each,
                              other == others.end() ? std::vector<double>{} : other->second);
      }
    }
    return result;
  };
  watcher.adjust_attention = [this](const AttentionPlace& place, AttentionOptions& options) {
    for (const Intervention& each : interventions_) {
      if (each.type == Intervention::Type::causal &&
          std::holds_alternative<Causal>(options.position)) {
        options.position = NoMask{};
      }
      if (each.type == Intervention::Type::edge && each.mode == "cut" && is_at(each, place)) {
        for (const ShownAttention& shown : attentions_) {
          if (shown.kind == place.kind) {
            check_edge(each, shown.queries, shown.keys);
            options.pattern = std::make_shared<CutPattern>(options.pattern, each);
          }
        }
      }
    }
  };
  for (const Intervention& each : interventions_) {
    if (each.type == Intervention::Type::position) {
      watcher.changes.emplace(each.hook, [&each](const Tensor& value) {
        return changed_row(value, hook_rows(each.hook, value.shape()), each);
      });
    } else if (each.type == Intervention::Type::patch) {
      const Tensor from = each.from->activation(each.hook);
      int64_t heads = 1;
      for (const ShownAttention& shown : each.from->attentions()) {
        heads = std::max(heads, shown.heads);
      }
      watcher.changes.emplace(each.hook, [&each, from, heads](const Tensor& value) {
        return patched(value, hook_rows(each.hook, value.shape()), each, from, heads);
      });
    }
  }
}

}  // namespace heed::explore
