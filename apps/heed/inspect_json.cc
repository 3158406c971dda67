#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "heed/inspect_view.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

constexpr int64_t kMostJsonNumbers = int64_t{1} << 23;

void write_numbers(JsonWriter& json, const Tensor& values) {
  json.begin_array();
  for (int64_t r = 0; r < values.size(0); ++r) {
    json.begin_array();
    for (int64_t c = 0; c < values.size(1); ++c) {
      const float value = values.data<float>()[r * values.size(1) + c];
      json.raw(std::isfinite(value) ? fmt::format("{}", value) : "null");
    }
    json.end_array();
  }
  json.end_array();
}

void write_strongest(JsonWriter& json, const Chosen& each, int64_t count) {
  const auto [index, weight] = each.attention->strongest(0, each.head, count);
  json.key("top").begin_array();
  for (int64_t q = 0; q < index.size(0); ++q) {
    json.begin_array();
    for (int64_t k = 0; k < index.size(1); ++k) {
      const int64_t at = q * index.size(1) + k;
      if (!(weight.data<float>()[at] > 0)) {
        break;  // sorted: what follows was not attended to at all
      }
      json.begin_object().field("key", index.data<int64_t>()[at]);
      json.field("weight", static_cast<double>(weight.data<float>()[at])).end_object();
    }
    json.end_array();
  }
  json.end_array();
}

void write_guesses(JsonWriter& json, const char* name, const std::vector<Guess>& guesses) {
  json.key(name).begin_array();
  for (const Guess& guess : guesses) {
    json.begin_object().field("token", guess.token).field("probability", guess.probability);
    json.end_object();
  }
  json.end_array();
}

void write_heads(JsonWriter& json, const Recorder& recorder) {
  json.key("heads").begin_array();
  for (const HeadSummary& head : head_table(recorder)) {
    json.begin_object().field("kind", head.place.kind).field("layer", head.place.layer);
    json.field("head", head.head).field("entropy", head.patterns.entropy);
    json.field("mean_distance", head.patterns.mean_distance).field("pattern", head.pattern);
    json.field("diagonal", head.patterns.diagonal).field("previous", head.patterns.previous);
    json.field("first", head.patterns.first).field("local", head.patterns.local);
    json.field("uniform", head.patterns.uniform).field("output_share", head.output_share);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string inspection_json(const InspectView& view) {
  const Inspection& inspection = view.inspection();
  const InspectOptions& options = view.options();
  JsonWriter json;
  json.begin_object().field("model_type", inspection.model_type).field("kind", view.kind());
  json.field("show", options.rollout ? std::string("rollout") : options.show);
  json.field("tokens", inspection.input.source).field("target", inspection.input.target);
  write_guesses(json, "prediction", inspection.prediction);
  if (inspection.predicted_position >= 0) {
    json.field("predicted_position", inspection.predicted_position);
  }
  if (!inspection.undisturbed.empty()) {
    write_guesses(json, "undisturbed", inspection.undisturbed);
  }
  if (options.heads_table) {
    write_heads(json, *inspection.recorder);
  }
  json.key("maps").begin_array();
  if (options.rollout) {
    json.begin_object().key("values");
    write_numbers(json, view.heatmap(kMostPixels, kMostPixels).panels[0].values);
    json.end_object();
  }
  const double room = static_cast<double>(kMostJsonNumbers) /
                      static_cast<double>(std::max<size_t>(view.chosen().size(), 1));
  const auto side = static_cast<int64_t>(std::sqrt(room));
  for (const Chosen& each : options.rollout ? std::vector<Chosen>() : view.chosen()) {
    const RecordedAttention& attention = *each.attention;
    json.begin_object().field("name", attention.place.name).field("layer", attention.place.layer);
    json.field("head", each.head)
        .field("rows", attention.queries())
        .field("columns", attention.keys());
    const Tensor values = view.values_of(each, side, side);
    json.field("pooled", values.size(0) < attention.queries() || values.size(1) < attention.keys());
    if (options.top_k > 0) {
      write_strongest(json, each, options.top_k);
    }
    write_numbers(json.key("values"), values);
    json.end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace heed::app
