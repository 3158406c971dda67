#include <cmath>

#include "base/base64.h"
#include "base/check.h"
#include "explore/explorer_state.h"
#include "explore/parts.h"

namespace heed {

using explore::Failure;
using explore::Fields;
using explore::Intervention;
using explore::Trace;

std::vector<Intervention> Explorer::State::interventions(const Json& list) {
  std::vector<Intervention> changes;
  for (const Json& each : list.elements()) {
    const Fields f(each, {"type", "kind", "layer", "head", "scale", "query", "key", "mode", "hook",
                          "position", "enabled", "from", "from_position"});
    Intervention change;
    change.json = each.dump();
    const std::string type = f.text("type");
    change.head = f.integer_or("head", -1, -1, INT32_MAX);
    change.scale = f.number_or("scale", 0.0, -1e6, 1e6);
    change.mode = f.text_if("mode").value_or("");
    if (type == "head" || type == "edge") {
      change.type = type == "head" ? Intervention::Type::head : Intervention::Type::edge;
      change.kind = f.text("kind");
      change.layer = f.integer("layer", 0, INT32_MAX);
      change.query = f.integer_or("query", 0, 0, INT32_MAX);
      change.key = f.integer_or("key", 0, 0, INT32_MAX);
      if (type == "edge" && change.mode != "cut" && change.mode != "scale" &&
          change.mode != "patch") {
        throw Failure(400, "invalid", "'mode' of an edge is one of cut, scale and patch",
                      "interventions");
      }
      if (type == "edge" && change.mode == "patch") {
        change.from = trace(f.text("from"), "from");
      }
    } else if (type == "position" || type == "patch") {
      change.type = type == "patch" ? Intervention::Type::patch : Intervention::Type::position;
      change.hook = f.text("hook");
      if (f.has("position")) {
        change.position = f.integer("position", 0, INT32_MAX);
      }
      if (f.has("from_position")) {
        change.from_position = f.integer("from_position", 0, INT32_MAX);
      }
      if (type == "patch") {
        change.from = trace(f.text("from"), "from");
      }
    } else if (type == "causal") {
      change.type = Intervention::Type::causal;
    } else {
      throw Failure(400, "invalid", "'type' is one of head, edge, position, causal and patch",
                    "interventions");
    }
    changes.push_back(std::move(change));
  }
  if (changes.size() > 64) {
    throw Failure(400, "invalid", "at most 64 interventions", "interventions");
  }
  return changes;
}

namespace {

/// The side of a kind's keys: each stage has patches of its own, the first those of the image.
std::string side_of(const Trace& trace, const std::string& kind) {
  const bool first =
      trace.stages().empty() || kind == explore::kind_of_stack(trace.stages().front().stack);
  return first ? "source" : kind;
}

/// Where the positions of each stage stand in the picture.
void write_grids(JsonWriter& json, const Trace& trace) {
  if (trace.stages().empty()) {
    return;
  }
  json.key("grids").begin_object();
  for (const explore::Stage& stage : trace.stages()) {
    json.key(side_of(trace, explore::kind_of_stack(stage.stack))).begin_object();
    json.field("rows", stage.grid.all_rows).field("columns", stage.grid.all_columns);
    json.field("first", 0).field("patch_rows", stage.grid.rows);
    json.field("patch_columns", stage.grid.columns);
    json.field("picture_rows", stage.picture_rows);
    json.field("picture_columns", stage.picture_columns);
    json.field("first_layer", stage.first_layer).end_object();
  }
  json.end_object();
}

}  // namespace

std::string Explorer::State::write_trace(const std::string& id, Trace& trace, int64_t top_k) {
  JsonWriter json;
  json.begin_object().field("id", id).field("model", trace.model().id).key("input").begin_object();
  const explore::TraceRequest& request = trace.request();
  for (const auto& [name, value] :
       {std::pair{"text", &request.text}, {"pair", &request.pair}, {"target", &request.target}}) {
    if (*value) {
      json.field(name, **value);
    }
  }
  if (!request.target && trace.input().decoder_features.defined()) {
    json.field("target", trace.target_numbers());
  }
  if (trace.input().pixel_values.defined()) {
    json.field("image", "data:image/png;base64," + encode_base64(explore::seen_picture(
                                                       trace.model(), trace.input().pixel_values)));
  }
  json.end_object().key("sides").begin_object().key("source");
  write_tokens(json, trace.source());
  if (trace.has_target()) {
    json.key("target");
    write_tokens(json, trace.target());
  }
  for (size_t i = 1; i < trace.stages().size(); ++i) {
    json.key(explore::kind_of_stack(trace.stages()[i].stack));
    write_tokens(json, trace.stages()[i].tokens);
  }
  if (!trace.landmarks().empty()) {
    json.key("landmarks");
    write_tokens(json, trace.landmarks());
  }
  json.end_object();
  write_grids(json, trace);
  json.key("attentions").begin_array();
  for (const explore::ShownAttention& each : trace.attentions()) {
    const bool target = trace.has_target();
    json.begin_object().field("kind", each.kind).field("layers", each.layers);
    json.field("heads", each.heads).field("queries", each.queries).field("keys", each.keys);
    const bool source = each.kind == "encoder" || each.kind == "vision";
    const bool itself = each.kind == "decoder" || each.kind == "text";
    const std::string side = side_of(trace, each.kind);
    const bool landmarks = !trace.landmarks().empty() && each.kind == "self";
    json.field("query_side", landmarks ? "landmarks" : target && !source ? "target" : side);
    json.field("key_side", target && itself ? "target" : side);
    json.field("causal", each.causal).field("offset", each.offset).end_object();
  }
  json.end_array().field("predictions_at", trace.predictions_at()).key("prediction");
  try {
    explore::write_prediction(json, trace, trace.first_position(), top_k);
  } catch (const Failure&) {  // an encoder without a head: nothing is predicted
    json.begin_object().field("position", -1).key("candidates").begin_array().end_array();
    json.end_object();
  }
  json.key("activations").begin_array();
  for (const explore::Watcher::Seen& each : trace.hooks()) {
    const int64_t rows = trace.rows_of(each.name);
    int64_t all = 1;
    for (const int64_t size : each.shape) {
      all *= size;
    }
    json.begin_object().field("name", each.name);
    json.field("shape", std::vector<int64_t>{rows, all / std::max<int64_t>(rows, 1)}).end_object();
  }
  json.end_array().key("interventions").begin_array();
  for (const Intervention& each : trace.interventions()) {
    json.raw(each.json);
  }
  json.end_array().field("generated", trace.generated()).field("asked", trace.asked());
  return json.field("pass_seconds", trace.seconds()).end_object().take();
}

std::string Explorer::State::create(const Json& body) {
  const Fields f(body, {"model", "text", "ids", "pair", "target", "target_ids", "ask", "image",
                        "audio", "features", "interventions", "top_k"});
  explore::TraceRequest request;
  request.model = f.text("model");
  request.text = f.text_if("text");
  request.pair = f.text_if("pair");
  request.target = f.text_if("target");
  request.image = f.text_if("image");
  request.audio = f.text_if("audio");
  request.features = f.text_if("features");
  request.ask = f.text_if("ask");
  request.ids = f.tokens_if("ids");
  request.target_ids = f.tokens_if("target_ids");
  std::vector<Intervention> changes;
  if (f.has("interventions")) {
    changes = interventions(body.at("interventions"));
  }
  const int64_t top_k = f.integer_or("top_k", 10, 1, 100);
  const auto made = std::make_shared<Trace>(model(request.model), request, std::move(changes));
  const std::string id = keep(made);
  return write_trace(id, *made, top_k);
}

std::string Explorer::State::experiment(const std::shared_ptr<Trace>& before, const Json& body) {
  const Fields f(body, {"interventions", "position", "top_k"});
  std::vector<Intervention> changes = before->interventions();
  for (Intervention& each : interventions(body.at("interventions"))) {
    changes.push_back(std::move(each));
  }
  explore::TraceRequest request = before->request();
  const bool numbers = before->model().model->kind() == ModelKind::regressor;
  if (before->generated() && numbers) {
    request.target = before->target_numbers();
  } else if (before->generated()) {
    std::vector<TokenId> written;
    for (size_t i = 1; i < before->target().size(); ++i) {
      written.push_back(before->target()[i].id);
    }
    request.target_ids = std::move(written);
  }
  const auto after = std::make_shared<Trace>(before->model(), request, std::move(changes));
  const int64_t position = f.integer_or("position", before->first_position(), -1, INT32_MAX);
  const int64_t top_k = f.integer_or("top_k", 10, 1, 100);
  // Numbers are no distribution: they are compared as they are.
  const auto distribution = [&](Trace& of) {
    return numbers ? std::vector<double>() : explore::softmax_of(of.logits(position));
  };
  const std::vector<double> p = distribution(*before), q = distribution(*after);
  JsonWriter first, second;
  explore::write_prediction(first, *before, position, top_k);
  explore::write_prediction(second, *after, position, top_k);
  std::vector<int64_t> seen;
  for (const std::string& text : {first.text(), second.text()}) {
    for (const Json& each : Json::parse(text, "prediction").at("candidates").elements()) {
      const int64_t id = each.integer("id", 0, INT64_MAX);
      if (std::find(seen.begin(), seen.end(), id) == seen.end()) {
        seen.push_back(id);
      }
    }
  }
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    kl += p[i] > 0 ? p[i] * (std::log(p[i]) - std::log(std::max(q[i], 1e-300))) : 0.0;
  }
  JsonWriter json;
  json.begin_object().key("before").raw(first.text()).key("after").raw(second.text());
  json.key("merged").begin_array();
  for (const int64_t id : seen) {
    json.begin_object().field("id", id).field("token", before->name_of(id));
    json.field("before", p[static_cast<size_t>(id)]).field("after", q[static_cast<size_t>(id)]);
    json.end_object();
  }
  json.end_array().field("kl", kl);
  return json.field("trace", keep(after)).end_object().take();
}

std::string Explorer::State::patching(const std::shared_ptr<Trace>& clean, const Json& body) {
  const Fields f(body, {"corrupt", "what", "kind", "layer", "answer", "against", "position"});
  const std::shared_ptr<Trace> corrupt = trace(f.text("corrupt"), "corrupt");
  const std::string what = f.text("what"), kind = f.text("kind");
  const explore::StackShape stack =
      explore::stack_shape(*clean, explore::query_stack(*clean, kind));
  const int64_t layer = f.integer("layer", 0, stack.layers - 1);
  const std::string block = stack.block(layer);
  const std::string hook = what == "head" ? block + ".attn.hook_z" : block + ".hook_" + what;
  const int64_t rows = clean->rows_of(hook);
  if (corrupt->rows_of(hook) != rows) {
    throw Failure(400, "invalid", fmt::format("{} tokens against {}", rows, corrupt->rows_of(hook)),
                  "corrupt");
  }
  int64_t heads = 0;
  for (const explore::ShownAttention& each : clean->attentions()) {
    heads = each.kind == kind ? each.heads : heads;
  }
  const int64_t position = f.integer_or("position", clean->first_position(), -1, INT32_MAX);
  const auto most = static_cast<int64_t>(clean->logits(position).size()) - 1;
  if (std::cmp_not_equal(corrupt->logits(position).size(), most + 1)) {  // of other stretches
    throw Failure(400, "invalid", "the two texts offer different answers", "corrupt");
  }
  const int64_t answer = f.integer("answer", 0, most);
  const int64_t against = f.integer_or("against", -1, -1, most);
  const auto metric = [&](Trace& each) {
    const explore::Row logits = each.logits(position);
    return logits[static_cast<size_t>(answer)] -
           (against < 0 ? 0.0 : logits[static_cast<size_t>(against)]);
  };
  const double good = metric(*clean), bad = metric(*corrupt);
  std::vector<double> values;
  const int64_t cells = what == "head" ? heads : rows;
  for (int64_t i = 0; i < cells; ++i) {
    Intervention change;
    change.type = Intervention::Type::patch;
    change.hook = hook;
    change.from = clean;
    if (what == "head") {
      change.head = i;
    } else {
      change.position = i;
    }
    Trace patched(corrupt->model(), corrupt->request(), {change});
    values.push_back((metric(patched) - bad) / (good - bad));
  }
  JsonWriter json;
  json.begin_object().field("layer", layer).field("what", what).key("values");
  explore::write_row(json, values);
  return json.field("clean", good).field("corrupt", bad).end_object().take();
}

}  // namespace heed
