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

/// Whether two rows agree but for rounding: of f32, or of inputs to 8 bits.
bool close(const Row& a, const Row& b, bool rounded = false) {
  const double allowed = rounded ? 0.1 : 1e-4;
  return norm_of(minus(a, b)) <= allowed * (norm_of(a) + norm_of(b) + 1e-12);
}

const Row* find_row(const std::map<std::string, Row>& rows, const std::string& name) {
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : &found->second;
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

std::vector<Row> head_outputs(Trace& trace, const StackShape& stack, int64_t layer,
                              int64_t position, bool cross) {
  const std::string block = stack.block(layer);
  const std::string z_hook = block + (cross ? ".cross_attn.hook_z" : ".attn.hook_z");
  const std::string out_hook = block + (cross ? ".hook_cross_attn_out" : ".hook_attn_out");
  std::vector<Row>& known = trace.remembered(fmt::format("heads {} {}", z_hook, position));
  if (!known.empty()) {
    return known;
  }
  const auto& rows = trace.rows_at(stack.prefix, position);
  if (!rows.contains(z_hook)) {  // no heads: FNet
    return {};
  }
  const Row& z = need_row(rows, z_hook);
  const std::string kind = cross ? "cross" : kind_of_stack(stack.prefix);
  int64_t heads = 0;
  for (const ShownAttention& each : trace.attentions()) {
    heads = each.kind == kind ? each.heads : heads;
  }
  if (heads == 0 || z.size() % static_cast<size_t>(heads) != 0) {
    return {};
  }
  const size_t width = z.size() / static_cast<size_t>(heads);
  std::vector<Row> probes(static_cast<size_t>(heads) + 1, Row(z.size(), 0.0));
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
    std::copy_n(z.begin() + static_cast<std::ptrdiff_t>(head * width), width,
                probes[head].begin() + static_cast<std::ptrdiff_t>(head * width));
  }
  std::vector<Row> made = trace.map_rows({{z_hook, out_hook, probes}}).front();
  const Row bias = made.back();
  Row total = bias;
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
    made[head] = minus(made[head], bias);
    add_to(total, made[head]);
  }
  if (close(total, need_row(rows, out_hook), trace.rounds_inputs())) {
    known = std::move(made);
  }
  return known;
}

void through_norm(const HeldNorm& norm, const std::string& name, int64_t layer,
                  std::vector<Part>& parts) {
  for (Part& part : parts) {
    part.row = norm.apply(part.row);
  }
  if (norm_of(norm.bias) > 0) {
    parts.push_back({{name, "norm_bias", "", layer, -1}, norm.bias});
  }
}

namespace {

/// Adds what an attention of a layer adds to the residual stream. `scale`: of the residual branch.
void add_attention(Trace& trace, const StackShape& stack, int64_t layer, int64_t position,
                   bool cross, double scale, std::vector<Part>& parts) {
  const std::string name = fmt::format("blocks.{}.{}", layer, cross ? "cross_attn" : "attn");
  const std::string kind = cross ? "cross" : kind_of_stack(stack.prefix);
  const auto& rows = trace.rows_at(stack.prefix, position);
  const Row out =
      need_row(rows, stack.block(layer) + (cross ? ".hook_cross_attn_out" : ".hook_attn_out"));
  const std::vector<Row> made = head_outputs(trace, stack, layer, position, cross);
  if (made.empty()) {
    parts.push_back({{name, "head", kind, layer, -1}, times(out, scale)});
    return;
  }
  for (size_t head = 0; head + 1 < made.size(); ++head) {
    const auto index = static_cast<int64_t>(head);
    parts.push_back({{fmt::format("{}.head.{}", name, head), "head", kind, layer, index},
                     times(made[head], scale)});
  }
  if (norm_of(made.back()) > 0) {
    parts.push_back(
        {{name + ".b_O", "attention_bias", kind, layer, -1}, times(made.back(), scale)});
  }
  if (trace.rounds_inputs()) {
    Row rest = out;
    for (const Row& row : made) {
      add_to(rest, row, -1.0);
    }
    parts.push_back({{name + ".rounding", "rounding", kind, layer, -1}, times(rest, scale)});
  }
}

/// How much of a branch's output is added to the residual stream.
double branch_scale(const Row& before, const Row& after, const Row& out) {
  const double size = dot(out, out);
  return size > 0 ? dot(minus(after, before), out) / size : 1.0;
}

std::vector<Part> embedding_parts(Trace& trace, const StackShape& stack, int64_t position) {
  const auto& rows = trace.rows_at(stack.prefix, position);
  const Row& first = need_row(rows, stack.block(0) + ".hook_resid_pre");
  const Row* embed = find_row(rows, stack.prefix + "hook_embed");
  const Row* positions = find_row(rows, stack.prefix + "hook_pos_embed");
  std::vector<Part> parts;
  const bool same_width = embed != nullptr && embed->size() == first.size() &&
                          (positions == nullptr || positions->size() == first.size());
  if (same_width && positions != nullptr) {
    const Row rest = minus(first, *positions);
    const double size = std::max(dot(*embed, *embed), 1e-300);
    if (close(rest, times(*embed, dot(rest, *embed) / size))) {
      parts.push_back({{"embed", "embed"}, rest});
      parts.push_back({{"pos_embed", "position"}, *positions});
      return parts;
    }
  }
  parts.push_back({{"embed", "embed"}, first});
  return parts;
}

}  // namespace

std::vector<Part> residual_parts(Trace& trace, const StackShape& stack, int64_t layer,
                                 int64_t position, bool until_cross) {
  const std::map<std::string, Row> rows = trace.rows_at(stack.prefix, position);
  std::vector<Part> parts = embedding_parts(trace, stack, position);
  for (int64_t l = 0; l < layer || (until_cross && l == layer); ++l) {
    const std::string block = stack.block(l);
    Row x = need_row(rows, block + ".hook_resid_pre");
    // Adds a branch's parts and, where norms come after them, runs everything through the norm.
    const auto finish = [&](const char* norm_name, const std::string& out_hook,
                            const std::string& input_hook, double scale) {
      add_to(x, need_row(rows, out_hook), scale);
      const std::string hook = fmt::format("{}.{}.hook_normalized", block, norm_name);
      if (!stack.pre_norm && rows.contains(hook)) {
        const HeldNorm norm = held_norm(trace, hook, out_hook, input_hook, x, rows.at(hook));
        through_norm(norm, fmt::format("blocks.{}.{}.b", l, norm_name), l, parts);
        x = rows.at(hook);
      }
    };
    const Row& attention_out = need_row(rows, block + ".hook_attn_out");
    const double scale =
        stack.pre_norm ? branch_scale(x, need_row(rows, block + ".hook_resid_mid"), attention_out)
                       : 1.0;
    add_attention(trace, stack, l, position, false, scale, parts);
    finish("ln1", block + ".hook_attn_out", block + ".hook_resid_pre", scale);
    if (until_cross && l == layer) {
      break;
    }
    if (stack.cross) {
      add_attention(trace, stack, l, position, true, scale, parts);
      finish("ln_cross", block + ".hook_cross_attn_out", block + ".hook_resid_mid", scale);
    }
    const Row& mlp = need_row(rows, block + ".hook_mlp_out");
    parts.push_back({{fmt::format("blocks.{}.mlp", l), "mlp", "", l, -1}, times(mlp, scale)});
    finish("ln2", block + ".hook_mlp_out",
           stack.cross ? block + ".ln_cross.hook_normalized" : block + ".hook_resid_mid", scale);
    const Row& after = need_row(rows, block + ".hook_resid_post");
    if (!close(x, after)) {  // something follows the feed-forward: DeBERTa's convolution
      parts.push_back({{fmt::format("blocks.{}.finish", l), "other", "", l, -1}, minus(after, x)});
    }
  }
  return parts;
}

std::vector<Part> attention_input_parts(Trace& trace, const StackShape& stack, int64_t layer,
                                        int64_t position, bool cross) {
  std::vector<Part> parts = residual_parts(trace, stack, layer, position, cross);
  if (!stack.pre_norm) {
    return parts;
  }
  const auto& rows = trace.rows_at(stack.prefix, position);
  const std::string block = stack.block(layer);
  const std::string input = block + (cross ? ".hook_resid_mid" : ".hook_resid_pre");
  const std::string output = block + (cross ? ".ln_cross.hook_normalized" : ".ln1.hook_normalized");
  if (!trace.has_hook(output)) {
    return parts;
  }
  const HeldNorm norm =
      held_norm(trace, output, input, "", need_row(rows, input), need_row(rows, output));
  through_norm(norm, cross ? "ln_cross.b" : "ln1.b", layer, parts);
  return parts;
}

}  // namespace heed::explore
