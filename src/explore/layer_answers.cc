#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "explore/answers.h"
#include "explore/parts.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::explore {
namespace {

constexpr int64_t kMostSources = 4096;
constexpr int64_t kMostOutputWeight = 262144;  // numbers: 1 MB

/// What one head's output projection makes of each component of its output [value_dim, hidden].
std::vector<Row> output_weight(Trace& trace, const std::string& z_hook, const std::string& out_hook,
                               int64_t head, int64_t heads, size_t width) {
  const size_t each = width / static_cast<size_t>(heads);
  std::vector<Row> probes(each + 1, Row(width, 0.0));
  for (size_t i = 0; i < each; ++i) {
    probes[i][static_cast<size_t>(head) * each + i] = 1.0;
  }
  std::vector<Row> made = trace.map_rows({{z_hook, out_hook, probes}}).front();
  const Row bias = made.back();
  made.pop_back();
  for (Row& row : made) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] -= bias[i];
    }
  }
  return made;
}

struct Neuron {
  int64_t index = 0;
  double pre = 0, post = 0, norm = 0;
  Row written = {};  ///< what it adds to the residual stream
};

/// The neurons that write most, by the norm of what they write.
std::vector<Neuron> strongest_neurons(Trace& trace, const std::string& block,
                                      const std::map<std::string, Row>& rows, int64_t top_k) {
  const auto post = rows.find(block + ".mlp.hook_post");
  const auto pre = rows.find(block + ".mlp.hook_pre");
  if (post == rows.end()) {
    return {};
  }
  std::vector<size_t> order(post->second.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t tried = std::min(order.size(), static_cast<size_t>(4 * top_k));
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(tried), order.end(),
      [&](size_t a, size_t b) { return std::abs(post->second[a]) > std::abs(post->second[b]); });
  std::vector<Row> probes(tried + 1, Row(post->second.size(), 0.0));
  for (size_t i = 0; i < tried; ++i) {
    probes[i][order[i]] = post->second[order[i]];
  }
  std::vector<Row> made =
      trace.map_rows({{block + ".mlp.hook_post", block + ".hook_mlp_out", probes}}).front();
  std::vector<Neuron> neurons;
  for (size_t i = 0; i < tried; ++i) {
    for (size_t c = 0; c < made[i].size(); ++c) {
      made[i][c] -= made.back()[c];
    }
    const double before = pre == rows.end() ? 0.0 : pre->second[order[i]];
    neurons.push_back({static_cast<int64_t>(order[i]), before, post->second[order[i]],
                       norm_of(made[i]), made[i]});
  }
  std::stable_sort(neurons.begin(), neurons.end(),
                   [](const Neuron& a, const Neuron& b) { return a.norm > b.norm; });
  neurons.resize(std::min(neurons.size(), static_cast<size_t>(top_k)));
  return neurons;
}

struct Promoted {
  int64_t id;
  double value;
};

/// The tokens whose logits each neuron's output raises most, through the last norm with its scale
/// held. Empty where the model has no LM head over tokens, or one that is not linear.
std::vector<std::vector<Promoted>> promoted_tokens(Trace& trace, const StackShape& stack,
                                                   int64_t position,
                                                   const std::vector<Neuron>& neurons) {
  constexpr size_t kShown = 5;
  std::vector<std::vector<Promoted>> none(neurons.size());
  const Model& model = *trace.model().model;
  const std::string last = stack.block(stack.layers - 1) + ".hook_resid_post";
  const std::string norm_hook = stack.prefix + "ln_final.hook_normalized";
  const auto& rows = trace.rows_at(stack.prefix, position);
  const bool words = !trace.predictions_at().empty() && model.kind() != ModelKind::encoder &&
                     trace.tokens_of(stack.prefix).size() == trace.predictions_at().size();
  if (!words || neurons.empty() || !rows.contains(last) || !rows.contains(norm_hook)) {
    return none;
  }
  const HeldNorm norm = held_norm(trace, norm_hook, last, "", rows.at(last), rows.at(norm_hook));
  std::vector<Row> probes{Row(norm.gain.size(), 0.0)};
  for (const Neuron& neuron : neurons) {
    probes.push_back(norm.apply(neuron.written));
  }
  const std::vector<Row> made = trace.map_to_logits(norm_hook, probes);
  for (size_t i = 0; i < neurons.size(); ++i) {
    std::vector<Promoted> order;
    for (size_t id = 0; id < made[0].size(); ++id) {
      order.push_back({static_cast<int64_t>(id), made[i + 1][id] - made[0][id]});
    }
    const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, order.size()));
    std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                      [](const Promoted& a, const Promoted& b) {
                        return a.value > b.value || (a.value == b.value && a.id < b.id);
                      });
    order.resize(static_cast<size_t>(shown));
    none[i] = std::move(order);
  }
  return none;
}

void write_norm(JsonWriter& json, Trace& trace, const std::map<std::string, Row>& rows,
                const std::string& hook, const std::string& input_hook,
                const std::string& zero_hook, const Row& input) {
  if (!rows.contains(hook)) {
    json.null();
    return;
  }
  const HeldNorm norm = held_norm(trace, hook, input_hook, zero_hook, input, rows.at(hook));
  json.begin_object().field("mean", norm.mean).field("rstd", norm.rstd).end_object();
}

Row sum_rows(Row a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] += b[i];
  }
  return a;
}

/// ‖weight_j · v_j W_O‖ of every key.
Row source_norms(const RecordedAttention& attention, int64_t head, int64_t query,
                 const std::vector<Row>& w_o) {
  const int64_t shared = head / (attention.heads() / attention.record.v.size(1));
  const Tensor& values = attention.record.values_of(0, query);
  const std::vector<double> weights =
      attention.record.weights(0, head, query, query + 1, 0, attention.keys()).to_doubles();
  Row norms;
  for (int64_t j = 0; j < attention.keys(); ++j) {
    const std::vector<double> v =
        slice(slice(slice(values, 0, 0, 1), 1, shared, shared + 1), 2, j, j + 1).to_doubles();
    Row out(w_o.front().size(), 0.0);
    for (size_t d = 0; d < v.size(); ++d) {
      for (size_t c = 0; c < out.size(); ++c) {
        out[c] += v[d] * w_o[d][c];
      }
    }
    norms.push_back(weights[static_cast<size_t>(j)] * norm_of(out));
  }
  return norms;
}

}  // namespace

std::string answer_steps(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer", "head", "query", "top_k"});
  const std::string kind = fields.text("kind");
  const int64_t layer = fields.integer("layer", 0, INT32_MAX);
  const RecordedAttention& attention = trace.attention(kind, layer);
  const int64_t head = fields.integer("head", 0, attention.heads() - 1);
  const int64_t query = fields.integer("query", 0, attention.queries() - 1);
  const bool cross = kind == "cross";
  const StackShape stack = stack_shape(trace, query_stack(trace, kind));
  check_not_padding(trace, stack.prefix, query);
  if (attention.queries() != trace.rows_of(stack.block(layer) + ".hook_attn_out") &&
      trace.stages().empty() && kind != "readout") {
    throw Failure(409, "unsupported",
                  "these queries are means of several tokens, which have no parts of their own",
                  "query");
  }
  const std::string block = stack.block(layer);
  const std::map<std::string, Row> rows = trace.rows_at(stack.prefix, query);
  const std::string before = block + (cross ? ".hook_resid_mid" : ".hook_resid_pre");
  const std::string norm_hook =
      block + (cross ? ".ln_cross.hook_normalized" : ".ln1.hook_normalized");
  const std::string z_hook = block + (cross ? ".cross_attn.hook_z" : ".attn.hook_z");
  const std::string out_hook = block + (cross ? ".hook_cross_attn_out" : ".hook_attn_out");
  const Row& z = rows.at(z_hook);
  JsonWriter json;
  const auto write = [&](const char* name, const Row* row) {
    json.key(name);
    if (row == nullptr) {
      json.null();
    } else {
      write_row(json, *row);
    }
  };
  const auto at = [&](const std::string& name) {
    const auto found = rows.find(name);
    return found == rows.end() ? nullptr : &found->second;
  };
  json.begin_object().field("kind", kind).field("layer", layer).field("head", head);
  json.field("query", query);
  // The patches of a model with stages are embedded before the first of them.
  const std::string input = stack.first == 0 && !trace.stages().empty() ? "" : stack.prefix;
  const Row* embed = at(input + "hook_embed");
  const Row* positions = at(input + "hook_pos_embed");
  const Row& first = rows.at(stack.block(0) + ".hook_resid_pre");
  write("embed", embed);
  write("pos_embed", positions);
  // What is neither the token's nor the position's; where a norm follows the sum, it is not known.
  Row other;
  bool sums_up = false;
  if (embed != nullptr && embed->size() == first.size()) {
    Row known = positions == nullptr ? *embed : sum_rows(*embed, *positions);
    other = first;
    for (size_t i = 0; i < other.size(); ++i) {
      other[i] -= known[i];
    }
    sums_up = norm_of(other) <= 1e-5 * norm_of(first);
  }
  json.key("other_embed").null();
  json.field("embed_norm", embed != nullptr && !sums_up);
  write("embed_sum", &first);
  write("resid_pre", at(before));
  write("normalized", stack.pre_norm && at(norm_hook) != nullptr ? at(norm_hook) : at(before));
  write("concat", &z);
  const std::vector<Row> w_o =
      output_weight(trace, z_hook, out_hook, head, attention.heads(), z.size());
  const std::vector<Row> outputs = head_outputs(trace, stack, layer, query, cross);
  Row norms;
  for (size_t h = 0; h + 1 < outputs.size(); ++h) {
    norms.push_back(norm_of(outputs[h]));
  }
  norms.resize(static_cast<size_t>(attention.heads()), 0.0);
  write("head_norms", &norms);
  const Row sources =
      attention.keys() <= kMostSources ? source_norms(attention, head, query, w_o) : Row();
  write("source_norms", sources.empty() ? nullptr : &sources);
  json.key("w_o");
  const auto hidden = static_cast<int64_t>(w_o.front().size());
  if (static_cast<int64_t>(w_o.size()) * hidden <= kMostOutputWeight) {
    std::vector<double> flat;
    for (const Row& row : w_o) {
      flat.insert(flat.end(), row.begin(), row.end());
    }
    write_matrix(json, flat, {static_cast<int64_t>(w_o.size()), hidden}, DType::f32);
  } else {
    json.null();
  }
  write("attn_out", at(out_hook));
  const Row after_cross = cross ? sum_rows(rows.at(before), rows.at(out_hook)) : Row();
  const Row* middle = cross ? &after_cross : at(block + ".hook_resid_mid");
  write("resid_mid", middle);
  write("mlp_in", stack.pre_norm ? at(block + ".ln2.hook_normalized") : middle);
  write("mlp_out", at(block + ".hook_mlp_out"));
  write("resid_post", at(block + ".hook_resid_post"));
  json.key("norm_stats").begin_object();
  if (stack.pre_norm) {
    write_norm(json.key("attention"), trace, rows, norm_hook, before, "", rows.at(before));
    const Row* mlp_input = stack.cross && !cross ? nullptr : middle;
    if (mlp_input != nullptr && !stack.cross) {
      write_norm(json.key("mlp"), trace, rows, block + ".ln2.hook_normalized",
                 block + ".hook_resid_mid", "", *mlp_input);
    } else {
      json.key("mlp").null();
    }
  } else {
    write_norm(json.key("attention"), trace, rows, norm_hook, out_hook, before,
               sum_rows(rows.at(before), rows.at(out_hook)));
    json.key("mlp").null();
  }
  json.end_object().key("neurons").begin_array();
  const std::vector<Neuron> neurons =
      strongest_neurons(trace, block, rows, fields.integer_or("top_k", 12, 1, 100));
  const std::vector<std::vector<Promoted>> promoted = promoted_tokens(trace, stack, query, neurons);
  for (size_t i = 0; i < neurons.size(); ++i) {
    const Neuron& neuron = neurons[i];
    json.begin_object().field("index", neuron.index).field("pre", neuron.pre);
    json.field("post", neuron.post).field("norm", neuron.norm).key("promotes").begin_array();
    for (const Promoted& each : promoted[i]) {
      json.begin_object().field("id", each.id).field("token", trace.name_of(each.id));
      json.field("value", each.value).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
  const Row* post = at(block + ".mlp.hook_post");
  json.field("neurons_total", post == nullptr ? size_t{0} : post->size());
  json.field("neurons_active", post == nullptr ? std::ptrdiff_t{0}
                                               : std::count_if(post->begin(), post->end(),
                                                               [](double x) { return x > 0; }));
  return json.field("pre_norm", stack.pre_norm).end_object().take();
}

std::string answer_why(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer", "head", "query", "key", "top_k"});
  const std::string kind = fields.text("kind");
  const int64_t layer = fields.integer("layer", 0, INT32_MAX);
  const int64_t head = fields.integer("head", 0, INT32_MAX);
  const int64_t query = fields.integer("query", 0, INT32_MAX);
  const int64_t key = fields.integer("key", 0, INT32_MAX);
  const ScoreExplanation why = explain(trace, kind, layer, head, query, key);
  JsonWriter json;
  json.begin_object().field("kind", kind).field("layer", layer).field("head", head);
  json.field("query", query).field("key", key).field("score", why.score);
  json.field("weight", why.weight).field("linearised", why.linearised);
  json.key("query_parts").begin_array();
  for (const ScorePart& part : why.query_parts) {
    write_part(json, part);
  }
  json.end_array().key("key_parts").begin_array();
  for (const ScorePart& part : why.key_parts) {
    write_part(json, part);
  }
  json.end_array().key("values");
  write_matrix(
      json, why.values,
      {static_cast<int64_t>(why.query_parts.size()), static_cast<int64_t>(why.key_parts.size())},
      DType::f64);
  json.field("bias", why.bias).field("remainder", why.remainder);
  return json.end_object().take();
}

std::string answer_activation(Trace& trace, const Json& body) {
  const Fields fields(body, {"name", "rows", "columns"});
  const Tensor whole = trace.activation(fields.text("name"));
  return answer_part(fields, whole.shape(), whole.size(0), whole.size(1),
                     [&](int64_t begin, int64_t end) { return slice(whole, 0, begin, end); });
}

}  // namespace heed::explore
