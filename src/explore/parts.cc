#include "explore/parts.h"

#include <fmt/format.h>

#include <cmath>

namespace heed::explore {

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

double norm_of(const Row& a) { return std::sqrt(dot(a, a)); }

Row minus(const Row& a, const Row& b) {
  Row result(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    result[i] = a[i] - b[i];
  }
  return result;
}

void add_to(Row& a, const Row& b, double factor) {
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] += factor * b[i];
  }
}

Row times(Row a, double factor) {
  for (double& x : a) {
    x *= factor;
  }
  return a;
}

Row sum_of(const std::vector<Part>& parts) {
  Row sum(parts.front().row.size(), 0.0);
  for (const Part& part : parts) {
    add_to(sum, part.row);
  }
  return sum;
}

const Row& need_row(const std::map<std::string, Row>& rows, std::string_view name) {
  const auto found = rows.find(std::string(name));
  if (found == rows.end()) {
    throw Failure(409, "unsupported",
                  fmt::format("this model does not report {}, which the split needs", name));
  }
  return found->second;
}

namespace {

double mean_of(const Row& x) {
  double sum = 0;
  for (const double v : x) {
    sum += v;
  }
  return sum / static_cast<double>(x.size());
}

}  // namespace

Row HeldNorm::apply(const Row& x) const {
  const double shift = centered ? mean_of(x) : 0.0;
  Row result(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    result[i] = gain[i] * (x[i] - shift) * rstd;
  }
  return result;
}

std::string StackShape::block(int64_t layer) const {
  return fmt::format("{}blocks.{}", prefix, first + layer);
}

std::string query_stack(const Trace& trace, const std::string& kind) {
  if (kind == "text" || kind == "vision") {
    return kind + "_model.";
  }
  if (kind == "encoder") {
    return "encoder.";
  }
  for (const Stage& stage : trace.stages()) {
    if (kind_of_stack(stage.stack) == kind) {
      return stage.stack;
    }
  }
  return trace.has_target() ? "decoder." : "";
}

std::string answer_stack(const Trace& trace) {
  return trace.has_target()       ? "decoder."
         : trace.stages().empty() ? ""
                                  : trace.stages().back().stack;
}

void check_not_padding(const Trace& trace, const std::string& stack, int64_t position) {
  const Stage* stage = trace.stage(stack);
  if (stage != nullptr && stage->grid.row_at(position) < 0) {
    throw Failure(409, "unsupported", "this place only fills up a window: no patch stands there",
                  "query");
  }
}

StackShape stack_shape(const Trace& trace, const std::string& prefix) {
  StackShape shape;
  shape.prefix = prefix;
  if (const Stage* stage = trace.stage(prefix)) {
    shape.first = stage->first_layer;
  }
  while (trace.has_hook(shape.block(shape.layers) + ".hook_resid_pre")) {
    ++shape.layers;
  }
  if (shape.layers == 0) {
    throw Failure(409, "unsupported", "this model is no stack of Transformer blocks");
  }
  const std::string first = shape.block(0);
  shape.cross = trace.has_hook(first + ".cross_attn.hook_q");
  // The first layer that has a norm there tells: ModernBERT's first has none.
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = shape.block(layer);
    if (!trace.has_hook(block + ".ln1.hook_normalized")) {
      continue;
    }
    for (const Watcher::Seen& each : trace.hooks()) {
      if (each.name == block + ".ln1.hook_normalized" || each.name == block + ".hook_attn_out") {
        shape.pre_norm = !each.name.ends_with(".hook_attn_out");
        return shape;
      }
    }
  }
  return shape;
}

namespace {

/// The norm's mean and scale for one row that it read and what it gave.
HeldNorm at_position(HeldNorm norm, const Row& input, const Row& output) {
  norm.mean = norm.centered ? mean_of(input) : 0.0;
  norm.rstd = 1;
  const Row unscaled = norm.apply(input);
  norm.rstd = dot(minus(output, norm.bias), unscaled) / std::max(dot(unscaled, unscaled), 1e-300);
  return norm;
}

}  // namespace

HeldNorm held_norm(Trace& trace, const std::string& norm_hook, const std::string& input_hook,
                   const std::string& zero_hook, const Row& input, const Row& output) {
  const size_t width = input.size();
  HeldNorm norm;
  std::vector<Row>& known = trace.remembered("norm " + norm_hook);
  if (!known.empty()) {
    norm.bias = known[0];
    norm.gain = known[1];
    norm.centered = known[2].front() > 0;
    return at_position(std::move(norm), input, output);
  }
  // What the norm makes of zeros is its bias, of ones its kind, of ±a its gain.
  constexpr double kLarge = 1024.0;  // beside which the norm's epsilon is nothing
  Row zeros(width, 0.0), ones(width, kLarge), signs(width, kLarge);
  for (size_t i = 1; i < width; i += 2) {
    signs[i] = -kLarge;
  }
  std::vector<Trace::Mapping> mappings;
  mappings.push_back({input_hook, norm_hook, {zeros, ones, signs}});
  if (!zero_hook.empty()) {  // what is added to the input
    mappings.push_back({zero_hook, norm_hook, {zeros, zeros, zeros}});
  }
  const std::vector<Row> made = trace.map_rows(mappings).front();
  norm.bias = made[0];
  norm.centered = norm_of(minus(made[1], made[0])) <= 1e-3 * norm_of(minus(made[2], made[0]));
  const double odd = width % 2 == 0 ? 0.0 : kLarge / static_cast<double>(width);  // mean of ±a
  double square = 0;
  for (const double x : signs) {
    square += (x - (norm.centered ? odd : 0.0)) * (x - (norm.centered ? odd : 0.0));
  }
  const double scale = std::sqrt(square / static_cast<double>(width));
  norm.gain.resize(width);
  for (size_t i = 0; i < width; ++i) {
    norm.gain[i] = (made[2][i] - made[0][i]) * scale / (signs[i] - (norm.centered ? odd : 0.0));
  }
  known = {norm.bias, norm.gain, {norm.centered ? 1.0 : 0.0}};
  return at_position(std::move(norm), input, output);
}

void through_norm(const HeldNorm& norm, const std::string& name, int64_t layer,
                  std::vector<Part>& parts, double weight) {
  for (Part& part : parts) {
    part.row = norm.apply(part.row);
  }
  if (norm_of(norm.bias) > 0) {
    parts.push_back({{name, "norm_bias", "", layer, -1}, times(norm.bias, weight)});
  }
}

}  // namespace heed::explore
