#include <fmt/format.h>

#include <cmath>

#include "explore/attention_parts.h"
#include "explore/parts.h"
#include "heed/ops.h"

namespace heed::explore {
namespace {

/// One head's part of a row of all heads.
Row head_part(const Row& row, int64_t heads, int64_t head) {
  const auto width = static_cast<std::ptrdiff_t>(row.size()) / heads;
  return {row.begin() + head * width, row.begin() + (head + 1) * width};
}

/// The rotation of a position's queries or keys, as pairs of components, found from what it made of
/// one row.
struct Rotation {
  struct Pair {
    size_t a, b;
    double cosine, sine;  // with the scaling of long contexts in them
  };
  std::vector<Pair> pairs;

  void apply(Row& row) const {
    for (const Pair& pair : pairs) {
      const double a = row[pair.a], b = row[pair.b];
      row[pair.a] = a * pair.cosine - b * pair.sine;
      row[pair.b] = b * pair.cosine + a * pair.sine;
    }
  }
};

/// Tries one way of pairing the first `rotated` components; the mean relative spread of the pairs'
/// stretch says how well it fits.
Rotation paired(const Row& before, const Row& after, size_t rotated, bool halves, double& misfit) {
  Rotation rotation;
  double smallest = 1e300, largest = 0;
  for (size_t i = 0; i < rotated / 2; ++i) {
    const size_t a = halves ? i : 2 * i, b = halves ? i + rotated / 2 : 2 * i + 1;
    const double size = before[a] * before[a] + before[b] * before[b];
    if (size == 0) {
      continue;
    }
    const double cosine = (before[a] * after[a] + before[b] * after[b]) / size;
    const double sine = (before[a] * after[b] - before[b] * after[a]) / size;
    rotation.pairs.push_back({a, b, cosine, sine});
    const double stretch = std::hypot(cosine, sine);
    smallest = std::min(smallest, stretch);
    largest = std::max(largest, stretch);
  }
  misfit = rotation.pairs.empty() ? 0.0 : largest / smallest - 1.0;
  return rotation;
}

Rotation rotation_of(const Row& before, const Row& after) {
  size_t rotated = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    rotated = before[i] != after[i] ? i + 1 : rotated;
  }
  if (rotated == 0) {
    return {};
  }
  Rotation best;
  double least = 1e300;
  // Some of the slowest components may not move at all: try every size from what moved.
  for (size_t size = rotated + rotated % 2; size <= before.size(); size += 2) {
    for (const bool halves : {true, false}) {
      double misfit = 0;
      Rotation tried = paired(before, after, size, halves, misfit);
      if (misfit < least) {
        least = misfit;
        best = std::move(tried);
      }
    }
  }
  if (least > 1e-3) {
    throw Failure(409, "unsupported", "this model's way of rotating positions is not known here");
  }
  return best;
}

/// One side of the score: its parts in the space of the head.
struct Side {
  std::vector<ScorePart> parts;
  std::vector<Row> rows;
};

struct SideQuestion {
  std::string attention;  ///< "blocks.3.attn"
  char letter;            ///< 'q' or 'k'
  std::string input;      ///< hook that the projection reads
  std::string stack;
  int64_t position, heads, head;
};

Side project_side(Trace& trace, const std::vector<Part>& parts, const SideQuestion& ask) {
  const std::string base = fmt::format("{}.hook_{}", ask.attention, ask.letter);
  const std::string normed = base + "_proj", unrotated = base + "_unrotated";
  const std::string made_hook = trace.has_hook(normed)      ? normed
                                : trace.has_hook(unrotated) ? unrotated
                                                            : base;
  std::vector<Row> probes{Row(parts.front().row.size(), 0.0)};
  for (const Part& part : parts) {
    probes.push_back(part.row);
  }
  const std::vector<Row> made = trace.map_rows({{ask.input, made_hook, probes}}).front();
  Side side;
  const Row bias = head_part(made[0], ask.heads, ask.head);
  for (size_t i = 0; i < parts.size(); ++i) {
    Row row = head_part(made[i + 1], ask.heads, ask.head);
    for (size_t c = 0; c < row.size(); ++c) {
      row[c] -= bias[c];
    }
    side.parts.push_back(parts[i].about);
    side.rows.push_back(std::move(row));
  }
  if (norm_of(bias) > 0) {
    side.parts.push_back({ask.letter == 'q' ? "b_Q" : "b_K", "bias"});
    side.rows.push_back(bias);
  }
  const auto& at = trace.rows_at(ask.stack, ask.position);
  if (trace.rounds_inputs()) {  // what the product made of its rounded input, less what it should
    Row rest = head_part(need_row(at, made_hook), ask.heads, ask.head);
    for (const Row& row : side.rows) {
      add_to(rest, row, -1.0);
    }
    side.parts.push_back({ask.letter == 'q' ? "q.rounding" : "k.rounding", "rounding"});
    side.rows.push_back(std::move(rest));
  }
  if (made_hook == normed) {  // a norm of queries or keys: its scale is held, too
    const Row before = head_part(at.at(normed), ask.heads, ask.head);
    const Row after =
        head_part(at.at(trace.has_hook(unrotated) ? unrotated : base), ask.heads, ask.head);
    for (Row& row : side.rows) {
      for (size_t c = 0; c < row.size(); ++c) {
        row[c] *= before[c] != 0 ? after[c] / before[c] : 0.0;
      }
    }
  }
  if (trace.has_hook(unrotated)) {
    const Rotation rotation = rotation_of(head_part(at.at(unrotated), ask.heads, ask.head),
                                          head_part(at.at(base), ask.heads, ask.head));
    for (Row& row : side.rows) {
      rotation.apply(row);
    }
  }
  return side;
}

double bias_at(const RecordedAttention& attention, int64_t head, int64_t query, int64_t key) {
  const Tensor bias = bias_of(attention, head, query, query + 1, key, key + 1);
  return bias.defined() ? bias.to_doubles().front() : 0.0;
}

Row record_row(const Tensor& x, int64_t head, int64_t row) {
  return slice(slice(slice(x, 0, 0, 1), 1, head, head + 1), 2, row, row + 1).to_doubles();
}

/// What cross-attention's keys are made from: a row of the encoder's output.
struct KeyRows {
  std::vector<Part> parts;
  std::string hook;  ///< of the rows that the projection reads
  bool linearised = false;
};

KeyRows encoder_rows(Trace& trace, int64_t key) {
  constexpr const char* kProjected = "encoder.hook_embed";
  const std::map<std::string, Row> rows = trace.rows_at("encoder.", key);
  if (!trace.has_hook("encoder.blocks.0.hook_resid_pre") && rows.contains(kProjected)) {
    // An encoder without blocks: features of regions through one projection.
    return {{{{"embed", "embed"}, rows.at(kProjected)}}, kProjected, false};
  }
  // What leaves its last block, through its last norm.
  const StackShape encoder = stack_shape(trace, "encoder.");
  KeyRows found{residual_parts(trace, encoder, encoder.layers, key),
                encoder.block(encoder.layers - 1) + ".hook_resid_post", !encoder.pre_norm};
  const std::string final_norm = "encoder.ln_final.hook_normalized";
  if (rows.contains(final_norm)) {
    const HeldNorm norm =
        held_norm(trace, final_norm, found.hook, "", rows.at(found.hook), rows.at(final_norm));
    through_norm(norm, "ln_final.b", -1, found.parts);
    found.hook = final_norm;
  }
  return found;
}

}  // namespace

void check_splittable(const Trace& trace, const RecordedAttention& attention, int64_t query) {
  const std::string hook = attention.place.name + ".hook_q";
  const auto found = std::find_if(trace.hooks().begin(), trace.hooks().end(),
                                  [&](const Watcher::Seen& each) { return each.name == hook; });
  if (found == trace.hooks().end()) {
    return;
  }
  const int64_t rows = hook_rows(hook, found->shape);
  if (attention.queries() != rows) {
    throw Failure(409, "unsupported",
                  "these queries are means of several tokens, which have no parts of their own",
                  "query");
  }
  int64_t all = 1;
  for (const int64_t size : found->shape) {
    all *= size;
  }
  const int64_t depth = all / (rows * attention.heads()), shown = attention.record.q.size(3);
  if (shown != depth && shown != 2 * depth) {
    throw Failure(409, "unsupported",
                  "these scores are no products of queries and keys and cannot be split");
  }
  if (shown == 2 * depth && query >= 0) {  // Longformer: zeros, and a query of another projection
    const Row row = record_row(attention.record.q, 0, query);
    if (norm_of({row.begin(), row.begin() + depth}) == 0) {
      throw Failure(409, "unsupported",
                    "this token attends globally, by projections of its own: its scores are not "
                    "split; choose another token",
                    "query");
    }
  }
}

ScoreExplanation explain(Trace& trace, const std::string& kind, int64_t layer, int64_t head,
                         int64_t query, int64_t key) {
  const RecordedAttention& attention = trace.attention(kind, layer);
  if (head < 0 || head >= attention.heads() || query < 0 || query >= attention.queries() ||
      key < 0 || key >= attention.keys()) {
    throw Failure(404, "not_found",
                  fmt::format("{} {} has {} heads, {} queries and {} keys", kind, layer,
                              attention.heads(), attention.queries(), attention.keys()),
                  "head");
  }
  if (kind == "readout") {
    throw Failure(409, "unsupported", "a readout is split no further");
  }
  check_splittable(trace, attention, query);
  const bool cross = kind == "cross";
  const int64_t key_heads = attention.record.k.size(1);
  const int64_t shared = key_head(attention, head);
  const StackShape stack = stack_shape(trace, query_stack(trace, kind));
  check_not_padding(trace, stack.prefix, query);
  check_not_padding(trace, stack.prefix, key);
  const std::string block = stack.block(layer);
  const std::string place = block + (cross ? ".cross_attn" : ".attn");
  const std::string normed = block + (cross ? ".ln_cross.hook_normalized" : ".ln1.hook_normalized");
  const std::string input = stack.pre_norm && trace.has_hook(normed) ? normed
                            : cross                                  ? block + ".hook_resid_mid"
                                                                     : block + ".hook_resid_pre";
  const Side q = project_side(trace, attention_input_parts(trace, stack, layer, query, cross),
                              {place, 'q', input, stack.prefix, query, attention.heads(), head});
  Side k;
  bool linearised = !stack.pre_norm;
  if (!cross) {
    k = project_side(trace, attention_input_parts(trace, stack, layer, key, false),
                     {place, 'k', input, stack.prefix, key, key_heads, shared});
  } else {
    KeyRows keys = encoder_rows(trace, key);
    linearised = linearised || keys.linearised;
    const std::vector<Part>& parts = keys.parts;
    const std::string& read = keys.hook;
    k = project_side(trace, parts, {place, 'k', read, "encoder.", key, key_heads, shared});
  }
  ScoreExplanation result;
  const Row total_q = record_row(attention.record.q, head, query);
  const double scale = scale_of(attention);
  result.bias = bias_at(attention, head, query, key);
  result.score = dot(total_q, record_row(attention.record.k, shared, key)) * scale + result.bias;
  result.weight =
      attention.record.weights(0, head, query, query + 1, key, key + 1).to_doubles().front();
  result.linearised = linearised;
  result.query_parts = q.parts;
  result.key_parts = k.parts;
  double sum = 0;
  for (const Row& a : q.rows) {
    for (const Row& b : k.rows) {
      result.values.push_back(dot(a, b) * scale);
      sum += result.values.back();
    }
  }
  result.remainder = result.score - result.bias - sum;
  return result;
}

}  // namespace heed::explore
