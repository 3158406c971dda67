#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/language.h"
#include "heed/inspect.h"

namespace heed {
namespace {
constexpr double kSumTolerance = 1e-4;  // f32 sums of many thousand weights
constexpr double kRangeTolerance = 1e-6;
}  // namespace

WeightsReport validate_weights(const Tensor& weights, bool causal, int64_t offset) {
  check(weights.defined() && weights.rank() >= 2 && is_floating(weights.dtype()),
        "validate_weights", "weights must be floating [.., queries, keys]");
  const int64_t queries = weights.size(-2);
  const int64_t keys = weights.size(-1);
  const Tensor all = weights.to(DType::f64).contiguous();
  WeightsReport report;
  report.rows = keys == 0 ? 0 : all.numel() / keys;
  for (int64_t row = 0; row < report.rows; ++row) {
    const double* w = all.data<double>() + row * keys;
    double sum = 0;
    bool empty = true;
    for (int64_t j = 0; j < keys; ++j) {
      if (!std::isfinite(w[j])) {
        ++report.not_finite;
        empty = false;
        continue;
      }
      sum += w[j];
      empty = empty && w[j] == 0;
      report.smallest = std::min(report.smallest, w[j]);
      report.largest = std::max(report.largest, w[j]);
      if (causal && j > row % queries + offset) {
        report.future += std::abs(w[j]);
      }
    }
    if (empty) {
      ++report.empty_rows;
    } else {
      report.worst_sum_error = std::max(report.worst_sum_error, std::abs(sum - 1.0));
    }
  }
  if (report.not_finite > 0) {
    report.problems.push_back(
        report.not_finite == 1
            ? std::string(say("1 weight is NaN or infinite"))
            : fmt::format(fmt::runtime(say("{} weights are NaN or infinite")), report.not_finite));
  }
  if (report.worst_sum_error > kSumTolerance) {
    report.problems.push_back(fmt::format(fmt::runtime(say("a row's weights sum to 1 ± {:.3g}")),
                                          report.worst_sum_error));
  }
  if (report.smallest < -kRangeTolerance || report.largest > 1 + kRangeTolerance) {
    report.problems.push_back(
        fmt::format(fmt::runtime(say("weights lie in {:.3g} … {:.3g}, not in 0 … 1")),
                    report.smallest, report.largest));
  }
  if (report.future > 0) {
    report.problems.push_back(fmt::format(
        fmt::runtime(say("later keys have a weight of {:.3g} together")), report.future));
  }
  return report;
}

}  // namespace heed
