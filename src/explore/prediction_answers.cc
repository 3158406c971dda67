#include <cmath>
#include <numeric>

#include "explore/answers.h"
#include "explore/parts.h"

namespace heed::explore {

std::vector<double> softmax_of(const Row& logits, double temperature) {
  const double best = *std::max_element(logits.begin(), logits.end());
  std::vector<double> values(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    total += values[i] = std::exp((logits[i] - best) / temperature);
  }
  for (double& value : values) {
    value /= total;
  }
  return values;
}

namespace {

void write_candidates(JsonWriter& json, const Trace& trace, const Row& logits,
                      const std::vector<double>& probabilities, int64_t top_k) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto count = std::min<std::ptrdiff_t>(top_k, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
    const double x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  json.key("candidates").begin_array();
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto id = static_cast<size_t>(order[static_cast<size_t>(i)]);
    json.begin_object().field("id", static_cast<int64_t>(id));
    json.field("token", trace.name_of(static_cast<int64_t>(id)));
    json.field("logit", logits[id]).field("probability", probabilities[id]);
    if (!trace.spans().empty()) {
      json.field("span", std::vector<int64_t>{trace.spans()[id].first, trace.spans()[id].last});
    }
    json.end_object();
  }
  json.end_array();
}

/// The candidates, or the numbers of a regressor, which chooses among none.
void write_answers(JsonWriter& json, const Trace& trace, const Row& logits,
                   const std::vector<double>& probabilities, int64_t top_k) {
  if (trace.model().model->kind() != ModelKind::regressor) {
    return write_candidates(json, trace, logits, probabilities, top_k);
  }
  json.key("candidates").begin_array().end_array().key("value").begin_array();
  for (const double number : logits) {
    json.value(number);
  }
  json.end_array();
}

}  // namespace

void write_prediction(JsonWriter& json, Trace& trace, int64_t position, int64_t top_k,
                      double temperature, bool all_logits) {
  const Row logits = trace.logits(position);
  json.begin_object().field("position", position);
  write_answers(json, trace, logits, softmax_of(logits, temperature), top_k);
  if (all_logits) {
    json.key("logits");
    write_row(json, logits);
  }
  json.end_object();
}

std::string answer_predict(Trace& trace, const Json& body) {
  const Fields fields(body, {"position", "top_k", "temperature", "all_logits"});
  JsonWriter json;
  write_prediction(json, trace, fields.integer("position", -1, INT32_MAX),
                   fields.integer_or("top_k", 10, 1, 100),
                   fields.number_or("temperature", 1.0, 0.01, 100.0),
                   fields.flag_or("all_logits", false));
  return json.take();
}

namespace {

/// A place on the way through the layers where the lens reads the residual stream.
struct Level {
  std::string hook, part;
  int64_t layer;
};

std::vector<Level> lens_levels(const StackShape& stack) {
  std::vector<Level> levels{{stack.block(0) + ".hook_resid_pre", "embed", -1}};
  for (int64_t layer = 0; layer < stack.layers; ++layer) {
    levels.push_back({stack.block(layer) + ".hook_resid_mid", "attn", layer});
    levels.push_back({stack.block(layer) + ".hook_resid_post", "mlp", layer});
  }
  return levels;
}

/// What the model's head makes of the residual stream at each level.
std::vector<Row> lens_logits(Trace& trace, const StackShape& stack,
                             const std::vector<Level>& levels, int64_t position) {
  const std::string last = stack.block(stack.layers - 1) + ".hook_resid_post";
  std::vector<Row> made;
  if (!trace.spans().empty()) {  // every row has a part in the answer
    for (const Level& level : levels) {
      made.push_back(trace.span_logits(
          trace.map_to_logits(last, rows_of_matrix(trace.activation(level.hook)))));
    }
    return made;
  }
  if (trace.is_pooled() && trace.asked() < 0) {  // so have they here
    std::vector<std::string> hooks;
    hooks.reserve(levels.size());
    for (const Level& level : levels) {
      hooks.push_back(level.hook);
    }
    return trace.logits_of(last, trace.activations(hooks));
  }
  const std::map<std::string, Row> at =
      trace.rows_at(stack.prefix, position < 0 ? trace.asked() : position);
  std::vector<Row> rows;
  rows.reserve(levels.size());
  for (const Level& level : levels) {
    rows.push_back(at.at(level.hook));
  }
  return trace.map_to_logits(last, rows);
}

}  // namespace

std::string answer_lens(Trace& trace, const Json& body) {
  const Fields fields(body, {"position", "token", "top_k"});
  const int64_t position = fields.integer("position", -1, INT32_MAX);
  const Row final_logits = trace.logits(position);
  const auto most = static_cast<int64_t>(final_logits.size()) - 1;
  const int64_t token = fields.integer_or("token", -1, -1, most);
  const StackShape stack = stack_shape(trace, answer_stack(trace));
  const std::vector<Level> levels = lens_levels(stack);
  const std::vector<Row> made = lens_logits(trace, stack, levels, position);
  JsonWriter json;
  json.begin_object().field("position", position).key("rows").begin_array();
  for (size_t i = 0; i < levels.size(); ++i) {
    const std::vector<double> probabilities = softmax_of(made[i]);
    json.begin_object().field("name", levels[i].hook).field("layer", levels[i].layer);
    json.field("part", levels[i].part);
    write_answers(json, trace, made[i], probabilities, fields.integer_or("top_k", 5, 1, 100));
    if (token >= 0) {
      const double own = made[i][static_cast<size_t>(token)];
      json.field("probability", probabilities[static_cast<size_t>(token)]);
      json.field("rank", std::count_if(made[i].begin(), made[i].end(),
                                       [own](double x) { return x > own; }));
    }
    json.end_object();
  }
  return json.end_array().end_object().take();
}

std::string answer_attribution(Trace& trace, const Json& body) {
  const Fields fields(body, {"position", "token", "against"});
  const int64_t position = fields.integer("position", -1, INT32_MAX);
  const auto most = static_cast<int64_t>(trace.logits(position).size()) - 1;
  const int64_t token = fields.integer("token", 0, most);
  std::optional<int64_t> against;
  if (fields.has("against")) {
    against = fields.integer("against", 0, most);
  }
  const Attribution split = attribute(trace, position, token, against);
  JsonWriter json;
  json.begin_object().field("position", position).field("token", token).key("against");
  if (against) {
    json.value(*against);
  } else {
    json.null();
  }
  json.field("logit", split.logit).key("parts").begin_array();
  for (const auto& [part, value] : split.parts) {
    json.begin_object().key("part");
    write_part(json, part);
    json.field("value", value).end_object();
  }
  json.end_array().field("remainder", split.remainder);
  return json.field("integrated", split.integrated).end_object().take();
}

}  // namespace heed::explore
