#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "explore/parts.h"

// What adds up to the residual stream, at one row or over several that are read together.

namespace heed::explore {
namespace {

/// Whether two rows agree but for rounding: of f32, or of inputs to 8 bits.
bool close(const Row& a, const Row& b, bool rounded = false) {
  const double allowed = rounded ? 0.1 : 1e-4;
  return norm_of(minus(a, b)) <= allowed * (norm_of(a) + norm_of(b) + 1e-12);
}

/// What each head makes of its part of z, and last the output's bias times `weight`. Empty where
/// they do not add up to `out`.
std::vector<Row> project_heads(Trace& trace, const std::string& z_hook, const std::string& out_hook,
                               const std::string& kind, const Row& z, const Row& out,
                               double weight) {
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
  made.back() = times(bias, weight);
  Row total = made.back();
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
    made[head] = minus(made[head], bias);
    add_to(total, made[head]);
  }
  return close(total, out, trace.rounds_inputs()) ? made : std::vector<Row>{};
}

}  // namespace

std::vector<Row> head_outputs(Trace& trace, const StackShape& stack, int64_t layer,
                              int64_t position, bool cross) {
  const std::string block = stack.block(layer);
  const std::string z_hook = block + (cross ? ".cross_attn.hook_z" : ".attn.hook_z");
  const std::string out_hook = block + (cross ? ".hook_cross_attn_out" : ".hook_attn_out");
  std::vector<Row>& known = trace.remembered(fmt::format("heads {} {}", z_hook, position));
  const auto& rows = trace.rows_at(stack.prefix, position);
  if (known.empty() && rows.contains(z_hook)) {  // no heads: FNet
    known = project_heads(trace, z_hook, out_hook, cross ? "cross" : kind_of_stack(stack.prefix),
                          rows.at(z_hook), need_row(rows, out_hook), 1.0);
  }
  return known;
}

namespace {

/// A branch of a layer: what it gives, the norm behind it and what else that norm reads.
struct Branch {
  std::string out, norm, input, norm_name;
  bool cross = false, mlp = false;
};

std::vector<Branch> branches_of(const StackShape& stack, int64_t layer, bool until_cross) {
  const std::string block = stack.block(layer);
  const auto norm = [&](const char* name) {
    return fmt::format("{}.{}.hook_normalized", block, name);
  };
  std::vector<Branch> branches{
      {block + ".hook_attn_out", norm("ln1"), block + ".hook_resid_pre", "ln1"}};
  if (until_cross) {
    return branches;
  }
  if (stack.cross) {
    branches.push_back({block + ".hook_cross_attn_out", norm("ln_cross"), block + ".hook_resid_mid",
                        "ln_cross", true});
  }
  branches.push_back({block + ".hook_mlp_out", norm("ln2"),
                      stack.cross ? norm("ln_cross") : block + ".hook_resid_mid", "ln2", false,
                      true});
  return branches;
}

/// Each head's contribution to what is read of an attention, and the output's bias last.
std::vector<Row> read_heads(Trace& trace, const StackShape& stack, int64_t layer,
                            const ReadRows& read, bool cross) {
  if (read.position >= 0) {
    std::vector<Row> made = head_outputs(trace, stack, layer, read.position, cross);
    for (Row& row : made) {
      row = times(row, read.weights.front());
    }
    return made;
  }
  const std::string block = stack.block(layer);
  const std::string z_hook = block + (cross ? ".cross_attn.hook_z" : ".attn.hook_z");
  const std::string out_hook = block + (cross ? ".hook_cross_attn_out" : ".hook_attn_out");
  return read.has(z_hook)
             ? project_heads(trace, z_hook, out_hook, cross ? "cross" : kind_of_stack(stack.prefix),
                             read.sum(z_hook), read.sum(out_hook), read.total())
             : std::vector<Row>{};
}

/// Adds what an attention of a layer adds to the residual stream. `scale`: of the residual branch.
void add_attention(Trace& trace, const StackShape& stack, int64_t layer, const ReadRows& read,
                   const Branch& branch, double scale, std::vector<Part>& parts) {
  const bool cross = branch.cross;
  const std::string name = fmt::format("blocks.{}.{}", layer, cross ? "cross_attn" : "attn");
  const std::string kind = cross ? "cross" : kind_of_stack(stack.prefix);
  const Row out = read.sum(branch.out);
  const std::vector<Row> made = read_heads(trace, stack, layer, read, cross);
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

std::vector<Part> embedding_parts(const StackShape& stack, const ReadRows& read) {
  const Row first = read.sum(stack.block(0) + ".hook_resid_pre");
  const std::string embed_hook = stack.prefix + "hook_embed";
  const std::string position_hook = stack.prefix + "hook_pos_embed";
  std::vector<Part> parts;
  if (read.has(embed_hook) && read.has(position_hook)) {
    const Row embed = read.sum(embed_hook), positions = read.sum(position_hook);
    if (embed.size() == first.size() && positions.size() == first.size()) {
      const Row rest = minus(first, positions);
      const double size = std::max(dot(embed, embed), 1e-300);
      if (close(rest, times(embed, dot(rest, embed) / size))) {
        parts.push_back({{"embed", "embed"}, rest});
        parts.push_back({{"pos_embed", "position"}, positions});
        return parts;
      }
    }
  }
  parts.push_back({{"embed", "embed"}, first});
  return parts;
}

/// A norm that comes after a branch, as one linear map, and its factor for every row.
struct ReadNorm {
  HeldNorm norm;
  std::vector<double> factors;
};

/// The norms on the way to a layer, where they come after the branches. By their hooks.
std::map<std::string, ReadNorm> norms_on_the_way(Trace& trace, const StackShape& stack,
                                                 int64_t layer, const ReadRows& read,
                                                 bool until_cross) {
  std::map<std::string, ReadNorm> norms;
  if (stack.pre_norm) {
    return norms;
  }
  for (int64_t l = 0; l < layer || (until_cross && l == layer); ++l) {
    const std::vector<Branch> branches = branches_of(stack, l, until_cross && l == layer);
    for (const std::map<std::string, Row>& rows : read.rows) {
      Row x = need_row(rows, stack.block(l) + ".hook_resid_pre");
      for (const Branch& each : branches) {
        add_to(x, need_row(rows, each.out));
        if (rows.contains(each.norm)) {
          const Row& output = rows.at(each.norm);
          ReadNorm& found = norms[each.norm];
          found.norm = held_norm(trace, each.norm, each.out, each.input, x, output);
          found.factors.push_back(std::exchange(found.norm.rstd, 1.0));
          x = output;
        }
      }
    }
  }
  return norms;
}

}  // namespace

ReadRows::ReadRows(Trace& trace, const std::string& stack, int64_t at)
    : position(at), rows{trace.rows_at(stack, at)}, weights{1.0} {}

ReadRows::ReadRows(Trace& trace, const std::string& stack, const std::vector<int64_t>& positions,
                   std::vector<double> factors)
    : rows(trace.rows_at(stack, positions)), weights(std::move(factors)) {}

bool ReadRows::has(const std::string& hook) const {
  return std::all_of(rows.begin(), rows.end(),
                     [&](const auto& each) { return each.contains(hook); });
}

Row ReadRows::sum(const std::string& hook) const {
  Row result = times(need_row(rows.front(), hook), weights.front());
  for (size_t i = 1; i < rows.size(); ++i) {
    add_to(result, need_row(rows[i], hook), weights[i]);
  }
  return result;
}

double ReadRows::total() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }

std::vector<Part> residual_parts(Trace& trace, const StackShape& stack, int64_t layer,
                                 int64_t position, bool until_cross) {
  return residual_parts(trace, stack, layer, ReadRows(trace, stack.prefix, position), until_cross);
}

std::vector<Part> residual_parts(Trace& trace, const StackShape& stack, int64_t layer,
                                 ReadRows read, bool until_cross) {
  // The factors of all norms to come are in the weights, and leave them one after the other.
  const auto norms = norms_on_the_way(trace, stack, layer, read, until_cross);
  for (const auto& [hook, norm] : norms) {
    for (size_t i = 0; i < read.weights.size(); ++i) {
      read.weights[i] *= norm.factors[i];
    }
  }
  std::vector<Part> parts = embedding_parts(stack, read);
  for (int64_t l = 0; l < layer || (until_cross && l == layer); ++l) {
    const std::string block = stack.block(l);
    Row x = read.sum(block + ".hook_resid_pre");
    const double scale = stack.pre_norm ? branch_scale(x, read.sum(block + ".hook_resid_mid"),
                                                       read.sum(block + ".hook_attn_out"))
                                        : 1.0;
    for (const Branch& branch : branches_of(stack, l, until_cross && l == layer)) {
      if (branch.mlp) {
        parts.push_back({{fmt::format("blocks.{}.mlp", l), "mlp", "", l, -1},
                         times(read.sum(branch.out), scale)});
      } else {
        add_attention(trace, stack, l, read, branch, scale, parts);
      }
      add_to(x, read.sum(branch.out), scale);
      if (const auto found = norms.find(branch.norm); found != norms.end()) {
        for (size_t i = 0; i < read.weights.size(); ++i) {
          read.weights[i] /= found->second.factors[i];
        }
        through_norm(found->second.norm, fmt::format("blocks.{}.{}.b", l, branch.norm_name), l,
                     parts, read.total());
        x = read.sum(branch.norm);
      }
    }
    if (until_cross && l == layer) {
      break;
    }
    const Row after = read.sum(block + ".hook_resid_post");
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
