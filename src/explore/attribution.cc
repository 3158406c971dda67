#include <algorithm>
#include <cmath>

#include "base/language.h"
#include "explore/parts.h"

namespace heed::explore {
namespace {

constexpr double kRounding = 1e-2;  // of a linear head, with room for f16
constexpr const char* kReadsMore =
    say("this model's head reads more than one row: the logit cannot be split into parts");

/// Nodes and weights of Gauss-Legendre quadrature on [0, 1], by Newton's method on the polynomial.
std::vector<std::pair<double, double>> quadrature(int count) {
  constexpr double kPi = 3.14159265358979323846;
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < count; ++i) {
    double x = std::cos(kPi * (i + 0.75) / (count + 0.5));
    double slope = 0;
    for (int round = 0; round < 100; ++round) {
      double before = 1, value = x;
      for (int n = 2; n <= count; ++n) {
        before = std::exchange(value, ((2 * n - 1) * x * value - (n - 1) * before) / n);
      }
      slope = count * (x * value - before) / (x * x - 1);
      const double step = value / slope;
      x -= step;
      if (std::abs(step) < 1e-15) {
        break;
      }
    }
    points.emplace_back(0.5 * (1 - x), 1 / ((1 - x * x) * slope * slope));
  }
  return points;
}

/// One row of the residual stream that a logit is read from, and how much each of the outputs that
/// the head has for this row counts.
struct ReadRow {
  int64_t row = 0;
  std::vector<std::pair<int64_t, double>> outputs;

  double value(const Row& logits) const {
    double sum = 0;
    for (const auto& [output, weight] : outputs) {
      sum += weight * logits.at(static_cast<size_t>(output));
    }
    return sum;
  }
};

/// Integrated gradients: each part times the head's gradient, averaged on the way from nothing to
/// the whole row. The parts add up to the logit for any smooth head.
void integrate_parts(Trace& trace, const std::string& hook, const std::vector<Part>& parts,
                     const ReadRow& read, double at_zero, Attribution& result) {
  constexpr int kPoints = 48;
  const Row whole = sum_of(parts);
  const auto points = quadrature(kPoints);
  std::vector<Row> rows;
  rows.reserve(points.size());
  for (const auto& point : points) {
    rows.push_back(times(whole, point.first));
  }
  const std::vector<Row> gradients = trace.logit_gradients(hook, rows, read.outputs);
  Row mean(whole.size(), 0.0);
  for (size_t i = 0; i < points.size(); ++i) {
    add_to(mean, gradients[i], points[i].second);
  }
  double total = at_zero;
  if (at_zero != 0.0) {
    result.parts.push_back({{"b_U", "bias"}, at_zero});
  }
  for (const Part& part : parts) {
    result.parts.push_back({part.about, dot(part.row, mean)});
    total += result.parts.back().second;
  }
  result.remainder = result.logit - total;
  result.integrated = true;
  constexpr double kRough = 0.05;
  if (std::abs(result.remainder) > kRough * (std::abs(result.logit) + 1.0)) {
    throw Failure(409, "unsupported", kReadsMore);
  }
}

/// Splits what one row gives to a logit. `alone`: no other row is read.
Attribution attribute_row(Trace& trace, const StackShape& stack, const ReadRow& read, double logit,
                          bool alone) {
  const std::string last = stack.block(stack.layers - 1) + ".hook_resid_post";
  const std::string final_norm = stack.prefix + "ln_final.hook_normalized";
  std::vector<Part> parts = residual_parts(trace, stack, stack.layers, read.row);
  const std::map<std::string, Row> rows = trace.rows_at(stack.prefix, read.row);
  std::string hook = last;
  if (rows.contains(final_norm)) {
    const HeldNorm norm =
        held_norm(trace, final_norm, last, "", need_row(rows, last), rows.at(final_norm));
    through_norm(norm, "ln_final.b", -1, parts);
    hook = final_norm;
  }
  std::vector<Row> probes{Row(parts.front().row.size(), 0.0), sum_of(parts)};
  for (const Part& part : parts) {
    probes.push_back(part.row);
  }
  const std::vector<Row> made = trace.map_to_logits(hook, probes);
  // What is left without that row is a bias, unless other rows are read as well: a mean over them.
  if (alone &&
      std::abs(read.value(trace.logits_of_nothing(hook)) - read.value(made[0])) > kRounding) {
    throw Failure(409, "unsupported", kReadsMore);
  }
  Attribution result;
  result.logit = logit;
  double total = read.value(made[0]);
  if (total != 0.0) {
    result.parts.push_back({{"b_U", "bias"}, total});
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const double each = read.value(made[i + 2]) - read.value(made[0]);
    result.parts.push_back({parts[i].about, each});
    total += each;
  }
  result.remainder = result.logit - total;
  if (trace.rounds_inputs() && std::abs(result.remainder) <= 0.1 * (std::abs(result.logit) + 1.0)) {
    result.parts.push_back({{"unembed.rounding", "rounding"}, result.remainder});
    result.remainder = 0;
  }
  if (std::abs(result.remainder) > kRounding * (std::abs(result.logit) + 1.0)) {
    // A head with an activation (a masked model's transform, a classifier's pooler).
    result.parts.clear();
    integrate_parts(trace, hook, parts, read, read.value(made[0]), result);
  }
  return result;
}

/// Adds what another row gives: parts of the same name become one.
void add_row(Attribution& all, const Attribution& each) {
  all.logit += each.logit;
  all.remainder += each.remainder;
  all.integrated = all.integrated || each.integrated;
  for (const auto& added : each.parts) {
    const auto same = std::find_if(all.parts.begin(), all.parts.end(), [&](const auto& part) {
      return part.first.name == added.first.name;
    });
    if (same == all.parts.end()) {
      all.parts.push_back(added);
    } else {
      same->second += added.second;
    }
  }
}

}  // namespace

Attribution attribute(Trace& trace, int64_t position, int64_t token,
                      std::optional<int64_t> against) {
  const StackShape stack = stack_shape(trace, answer_stack(trace));
  std::vector<std::pair<int64_t, double>> wanted{{token, 1.0}};
  if (against) {
    wanted.emplace_back(*against, -1.0);
  }
  if (trace.spans().empty()) {
    const ReadRow read{position < 0 ? trace.answer_row() : position, wanted};
    // A reader's other rows are the words it chooses among.
    return attribute_row(trace, stack, read, read.value(trace.logits(position)),
                         position < 0 && trace.asked() < 0);
  }
  Attribution result;  // the start is read at the answer's first token, the end at its last
  for (const auto& [span, weight] : wanted) {
    const AnswerSpan& ends = trace.spans().at(static_cast<size_t>(span));
    for (const ReadRow& read :
         {ReadRow{ends.first, {{0, weight}}}, ReadRow{ends.last, {{1, weight}}}}) {
      const double logit = read.value(trace.row_logits(read.row));
      add_row(result, attribute_row(trace, stack, read, logit, false));
    }
  }
  return result;
}

}  // namespace heed::explore
