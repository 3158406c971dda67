#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/language.h"
#include "explore/parts.h"
#include "heed/ops.h"

namespace heed::explore {
namespace {

constexpr double kExact = 1e-4;     // of the logit that the parts of a linear head may miss
constexpr double kRounding = 1e-2;  // of a linear head, with room for f16
constexpr double kRough = 0.05;     // of the parts of any other, from which on they say nothing
constexpr const char* kPooledRows = "hook_pooled";
constexpr const char* kPooledNorm = "ln_pooled.hook_normalized";
constexpr const char* kNotSmooth = say(
    "this model's head is no smooth function of the rows it reads: the logit is no sum of parts");

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
  if (std::abs(result.remainder) > kRough * (std::abs(result.logit) + 1.0)) {
    throw Failure(409, "unsupported", kNotSmooth);
  }
}

/// Splits what one row gives to a logit.
Attribution attribute_row(Trace& trace, const StackShape& stack, const ReadRow& read,
                          double logit) {
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
  const double size = std::abs(result.logit) + 1.0, rest = std::abs(result.remainder);
  if (rest > kExact * size) {
    // A head with an activation (a masked model's transform, a classifier's pooler), or f16.
    Attribution integrated;
    integrated.logit = logit;
    integrate_parts(trace, hook, parts, read, read.value(made[0]), integrated);
    if (rest > kRounding * size || std::abs(integrated.remainder) < 0.1 * rest) {
      return integrated;
    }
  }
  return result;
}

/// The gradient of a logit of the whole input with respect to all rows of a hook, averaged on the
/// way from nothing to what they are.
struct PooledGradient {
  std::vector<Row> rows;
  bool linear = false;  ///< it is the same all the way
};

/// What a gradient says that the rows of a hook add to a logit.
double added_by(const std::vector<Row>& gradient, const Tensor& rows) {
  double sum = 0;
  const std::vector<Row> values = rows_of_matrix(rows);
  for (size_t r = 0; r < values.size(); ++r) {
    sum += dot(gradient[r], values[r]);
  }
  return sum;
}

/// `added`: the logit less what it is where all rows are zero.
PooledGradient pooled_gradient(Trace& trace, const std::string& hook,
                               const std::vector<std::pair<int64_t, double>>& wanted,
                               double added) {
  constexpr double kSame = 1e-4;
  const Tensor whole = trace.activation(hook);
  const std::vector<Tensor> ends = trace.gradients_of(hook, {whole, mul(whole, 0.25)}, wanted);
  const auto size = [](const Tensor& x) { return norm_of(x.to_doubles()); };
  PooledGradient result;
  result.rows = rows_of_matrix(ends[0]);
  const auto fits = [&](double share) {
    return std::abs(added_by(result.rows, whole) - added) <= share * (std::abs(added) + 1.0);
  };
  result.linear = size(sub(ends[0], ends[1])) <= kSame * size(ends[0]) && fits(kSame);
  // A head with kinks (ReLU) may want more points than a smooth one.
  for (const int count : {48, 384}) {
    if (result.linear) {
      break;
    }
    const auto points = quadrature(count);
    std::vector<Tensor> values;
    values.reserve(points.size());
    for (const auto& point : points) {
      values.push_back(mul(whole, point.first));
    }
    const std::vector<Tensor> gradients = trace.gradients_of(hook, values, wanted);
    result.rows.assign(result.rows.size(), Row(result.rows.front().size(), 0.0));
    for (size_t i = 0; i < points.size(); ++i) {
      const std::vector<Row> rows = rows_of_matrix(gradients[i]);
      for (size_t r = 0; r < rows.size(); ++r) {
        add_to(result.rows[r], rows[r], points[i].second);
      }
    }
    if (fits(1e-3)) {
      break;
    }
  }
  return result;
}

/// Rows whose gradients point the same way: a mean's all do.
struct ReadTogether {
  Row direction;  ///< of length 1
  std::vector<int64_t> rows;
  std::vector<double> weights;
};

std::vector<ReadTogether> read_together(const std::vector<Row>& gradients) {
  constexpr double kNothing = 1e-9, kParallel = 1e-5;
  double most = 0;
  for (const Row& row : gradients) {
    most = std::max(most, norm_of(row));
  }
  std::vector<ReadTogether> groups;
  for (size_t r = 0; r < gradients.size(); ++r) {
    const double size = norm_of(gradients[r]);
    if (size <= kNothing * most) {
      continue;
    }
    auto found = std::find_if(groups.begin(), groups.end(), [&](const ReadTogether& each) {
      const double along = dot(gradients[r], each.direction);
      return norm_of(minus(gradients[r], times(each.direction, along))) <= kParallel * size;
    });
    if (found == groups.end()) {
      groups.push_back({times(gradients[r], 1.0 / size), {}, {}});
      found = groups.end() - 1;
    }
    found->rows.push_back(static_cast<int64_t>(r));
    found->weights.push_back(dot(gradients[r], found->direction));
  }
  return groups;
}

/// The parts of rows that are read together, through the last norm where there is one.
std::vector<Part> parts_together(Trace& trace, const StackShape& stack, const ReadTogether& group,
                                 const std::string& last, const std::string& final_norm) {
  const Stage* stage = trace.stage(stack.prefix);
  std::vector<int64_t> positions;
  for (const int64_t row : group.rows) {
    positions.push_back(stage == nullptr ? row : stage->grid.position_of(row));
  }
  ReadRows read(trace, stack.prefix, positions, group.weights);
  if (final_norm.empty()) {
    return residual_parts(trace, stack, stack.layers, std::move(read));
  }
  HeldNorm norm;
  const std::vector<std::string> hooks{last, final_norm};
  const std::vector<Tensor> values = trace.activations(hooks);
  for (size_t i = 0; i < group.rows.size(); ++i) {
    const auto row = [&](const Tensor& x) {
      return slice(x, 0, group.rows[i], group.rows[i] + 1).to_doubles();
    };
    norm = held_norm(trace, final_norm, last, "", row(values[0]), row(values[1]));
    read.weights[i] *= std::exchange(norm.rstd, 1.0);
  }
  std::vector<Part> parts = residual_parts(trace, stack, stack.layers, std::move(read));
  through_norm(norm, "ln_final.b", -1, parts,
               std::accumulate(group.weights.begin(), group.weights.end(), 0.0));
  return parts;
}

void add_part(Attribution& all, const ScorePart& about, double value) {
  const auto same = std::find_if(all.parts.begin(), all.parts.end(),
                                 [&](const auto& part) { return part.first.name == about.name; });
  if (same == all.parts.end()) {
    all.parts.emplace_back(about, value);
  } else {
    same->second += value;
  }
}

/// What a head that reads the whole input reads: the hook of rows behind the last norm, or behind
/// the norm of their mean (BEiT).
struct PooledHead {
  std::string last, norm, hook;
  bool by_row = false;  ///< the norm is applied to every row
};

PooledHead pooled_head(const Trace& trace, const StackShape& stack) {
  PooledHead head;
  head.last = stack.block(stack.layers - 1) + ".hook_resid_post";
  for (const std::string& name : {stack.prefix + "ln_final.hook_normalized",
                                  std::string(kFinalRows), std::string(kPooledNorm)}) {
    head.norm = head.norm.empty() && trace.has_hook(name) ? name : head.norm;
  }
  head.by_row = !head.norm.empty() && trace.rows_of(head.norm) == trace.rows_of(head.last);
  head.hook = head.norm.empty() ? head.last : head.norm;
  return head;
}

/// The parts of what is read and how much each counts: as many lists as directions.
std::vector<std::pair<std::vector<Part>, Row>> pooled_parts(
    Trace& trace, const StackShape& stack, const PooledHead& head, const PooledGradient& gradient,
    const std::vector<std::pair<int64_t, double>>& wanted) {
  std::vector<std::pair<std::vector<Part>, Row>> lists;
  if (head.norm.empty() || head.by_row) {
    for (const ReadTogether& group : read_together(gradient.rows)) {
      lists.emplace_back(
          parts_together(trace, stack, group, head.last, head.by_row ? head.norm : ""),
          group.direction);
    }
    return lists;
  }
  // A mean that goes through a norm: the rows' gradients say which rows it is of.
  const std::vector<Tensor> slopes =
      trace.gradients_of(head.last, {trace.activation(head.last)}, wanted);
  std::vector<ReadTogether> groups = read_together(rows_of_matrix(slopes.front()));
  if (groups.size() != 1) {
    throw Failure(409, "unsupported", kNotSmooth);
  }
  ReadTogether& group = groups.front();
  const double total = std::accumulate(group.weights.begin(), group.weights.end(), 0.0);
  for (double& weight : group.weights) {
    weight /= total;
  }
  std::vector<Part> parts = parts_together(trace, stack, group, head.last, "");
  const std::vector<Tensor> ends = trace.activations({kPooledRows, head.norm});
  const HeldNorm norm =
      held_norm(trace, head.norm, kPooledRows, "", ends[0].to_doubles(), ends[1].to_doubles());
  through_norm(norm, "ln_pooled.b", -1, parts);
  lists.emplace_back(std::move(parts), gradient.rows.front());
  return lists;
}

/// Splits a logit of the whole input, whichever rows its head reads: one, a mean over all, or some
/// of each.
Attribution attribute_pooled(Trace& trace, const StackShape& stack,
                             const std::vector<std::pair<int64_t, double>>& wanted) {
  const PooledHead head = pooled_head(trace, stack);
  const ReadRow read{-1, wanted};
  const Tensor nothing = Tensor::zeros(trace.activation(head.hook).shape());
  double total = read.value(trace.logits_of(head.hook, {nothing}).front());
  Attribution result;
  result.logit = read.value(trace.logits(-1));
  const PooledGradient gradient = pooled_gradient(trace, head.hook, wanted, result.logit - total);
  result.integrated = !gradient.linear;
  if (total != 0.0) {
    result.parts.push_back({{"b_U", "bias"}, total});
  }
  for (const auto& [parts, direction] : pooled_parts(trace, stack, head, gradient, wanted)) {
    for (const Part& part : parts) {
      const double value = dot(part.row, direction);
      add_part(result, part.about, value);
      total += value;
    }
  }
  result.remainder = result.logit - total;
  if (std::abs(result.remainder) > kRough * (std::abs(result.logit) + 1.0)) {
    throw Failure(409, "unsupported", kNotSmooth);
  }
  return result;
}

/// Adds what another row gives: parts of the same name become one.
void add_row(Attribution& all, const Attribution& each) {
  all.logit += each.logit;
  all.remainder += each.remainder;
  all.integrated = all.integrated || each.integrated;
  for (const auto& [about, value] : each.parts) {
    add_part(all, about, value);
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
  if (trace.is_pooled() && trace.asked() < 0) {
    return attribute_pooled(trace, stack, wanted);
  }
  if (trace.spans().empty()) {
    const ReadRow read{position < 0 ? trace.asked() : position, wanted};
    return attribute_row(trace, stack, read, read.value(trace.logits(position)));
  }
  Attribution result;  // the start is read at the answer's first token, the end at its last
  for (const auto& [span, weight] : wanted) {
    const AnswerSpan& ends = trace.spans().at(static_cast<size_t>(span));
    for (const ReadRow& read :
         {ReadRow{ends.first, {{0, weight}}}, ReadRow{ends.last, {{1, weight}}}}) {
      const double logit = read.value(trace.row_logits(read.row));
      add_row(result, attribute_row(trace, stack, read, logit));
    }
  }
  return result;
}

}  // namespace heed::explore
