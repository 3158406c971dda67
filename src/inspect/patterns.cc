#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "heed/inspect.h"

namespace heed {
namespace {

void check_head(const char* op, const Tensor& weights) {
  check(weights.defined() && weights.rank() == 2 && is_floating(weights.dtype()), op,
        "takes one head's weights [queries, keys]");
}

/// Which keys a query may see, as all rows show: a key that no row uses is padding, and where
/// no row uses a later key, later keys are hidden. A single weight of 0 does not make a key a
/// masked one: a head that looks at its neighbours gives all others nothing.
class VisibleKeys {
 public:
  VisibleKeys(const double* weights, int64_t queries, int64_t keys, int64_t offset)
      : used_(static_cast<size_t>(keys) + 1) {
    std::vector<bool> seen(static_cast<size_t>(keys));
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        if (weights[i * keys + j] > 0) {
          seen[static_cast<size_t>(j)] = true;
          causal_ = causal_ && j <= i + offset;
        }
      }
    }
    for (size_t j = 0; j < seen.size(); ++j) {
      used_[j + 1] = used_[j] + (seen[j] ? 1 : 0);
    }
  }

  int64_t of(int64_t position) const {
    const auto keys = static_cast<int64_t>(used_.size()) - 1;
    return used_[static_cast<size_t>(causal_ ? std::clamp<int64_t>(position + 1, 0, keys) : keys)];
  }

 private:
  std::vector<int64_t> used_;  // of the first n keys
  bool causal_ = true;
};

/// What one row adds to the patterns. `rows` of them are averaged.
void add_row(const double* w, int64_t keys, int64_t position, int64_t reach, int64_t visible,
             AttentionPatterns* patterns) {
  double entropy = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const double weight = w[j];
    if (!(weight > 0)) {
      continue;
    }
    const int64_t distance = std::abs(position - j);
    entropy -= weight * std::log2(weight);
    patterns->mean_distance += weight * static_cast<double>(distance);
    patterns->diagonal += distance == 0 ? weight : 0;
    patterns->previous += j == position - 1 ? weight : 0;
    patterns->local += distance <= reach ? weight : 0;
  }
  patterns->first += keys > 0 ? w[0] : 0;
  patterns->entropy += entropy;
  patterns->uniform += visible > 1 ? entropy / std::log2(static_cast<double>(visible)) : 0;
}

}  // namespace

AttentionPatterns attention_patterns(const Tensor& weights, int64_t offset, int64_t reach) {
  check_head("attention_patterns", weights);
  const Tensor all = weights.to(DType::f64).contiguous();
  const int64_t queries = all.size(0);
  const int64_t keys = all.size(1);
  AttentionPatterns patterns;
  int64_t rows = 0;
  const VisibleKeys visible(all.data<double>(), queries, keys, offset);
  for (int64_t i = 0; i < queries; ++i) {
    const double* w = all.data<double>() + i * keys;
    if (std::any_of(w, w + keys, [](double weight) { return weight > 0; })) {
      add_row(w, keys, i + offset, reach, visible.of(i + offset), &patterns);
      ++rows;
    }
  }
  if (rows == 0) {
    return patterns;
  }
  for (double* value : {&patterns.diagonal, &patterns.previous, &patterns.first, &patterns.local,
                        &patterns.uniform, &patterns.entropy, &patterns.mean_distance}) {
    *value /= static_cast<double>(rows);
  }
  return patterns;
}

std::string name_of_pattern(const AttentionPatterns& patterns) {
  constexpr double kMost = 0.5;   // of a row's weight
  constexpr double kEven = 0.95;  // of the largest entropy
  constexpr double kNearly = 0.8;
  if (patterns.diagonal > kMost) {
    return "diagonal";
  }
  if (patterns.previous > kMost) {
    return "previous token";
  }
  if (patterns.first > kMost) {
    return "first token";
  }
  if (patterns.uniform > kEven) {
    return "uniform";
  }
  return patterns.local > kNearly ? "local" : "mixed";
}

std::vector<std::vector<Attended>> top_attended(const Tensor& weights, int64_t count) {
  check_head("top_attended", weights);
  check(count > 0, "top_attended", "{} keys a row", count);
  const Tensor all = weights.to(DType::f64).contiguous();
  const int64_t keys = all.size(1);
  std::vector<std::vector<Attended>> rows;
  std::vector<int64_t> order(static_cast<size_t>(keys));
  const auto kept = static_cast<std::ptrdiff_t>(std::min(count, keys));
  for (int64_t i = 0; i < all.size(0); ++i) {
    const double* w = all.data<double>() + i * keys;
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                      [&](int64_t a, int64_t b) { return w[a] != w[b] ? w[a] > w[b] : a < b; });
    std::vector<Attended> row;
    for (std::ptrdiff_t n = 0; n < kept; ++n) {
      const int64_t key = order[static_cast<size_t>(n)];
      row.push_back({key, w[key]});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace heed
