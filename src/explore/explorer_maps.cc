#include <cmath>

#include "base/check.h"
#include "explore/answers.h"
#include "explore/explorer_page.h"
#include "heed/inspect.h"
#include "heed/serve.h"
#include "heed/version.h"

namespace heed {
namespace {

constexpr const char* kOp = "explorer_file";
constexpr int64_t kTile = 256;
constexpr int64_t kThumbnail = 24;

struct Sizes {
  int64_t layers = 0, heads = 0, rows = 0, columns = 0;
};

Sizes sizes_of(const ExplorerMaps& group) {
  Sizes sizes;
  check(!group.maps.empty(), kOp, "group '{}' has no map", group.kind);
  for (const ExplorerMap& map : group.maps) {
    check(map.weights.defined() && map.weights.rank() == 2 && map.weights.numel() > 0 &&
              map.layer >= 0 && map.head >= 0,
          kOp, "the map of layer {}, head {} is not [rows, columns]", map.layer, map.head);
    sizes.layers = std::max(sizes.layers, map.layer + 1);
    sizes.heads = std::max(sizes.heads, map.head + 1);
    sizes.rows = std::max(sizes.rows, map.weights.size(0));
    sizes.columns = std::max(sizes.columns, map.weights.size(1));
  }
  check(std::cmp_equal(group.row_labels.size(), sizes.rows), kOp, "{} row labels for {} rows",
        group.row_labels.size(), sizes.rows);
  check(std::cmp_equal(group.column_labels.size(), sizes.columns), kOp,
        "{} column labels for {} columns", group.column_labels.size(), sizes.columns);
  return sizes;
}

/// Cells of `cell` x `cell` weights, each the largest of them.
Tensor pooled_map(const Tensor& weights, int64_t cell) {
  const int64_t rows = weights.size(0), columns = weights.size(1);
  Tensor result = Tensor::zeros({(rows + cell - 1) / cell, (columns + cell - 1) / cell});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      float& value = result.data<float>()[r / cell * result.size(1) + c / cell];
      value = std::max(value, weights.data<float>()[r * columns + c]);
    }
  }
  return result;
}

Tensor weights_at(const ExplorerMaps& group, const Sizes& sizes, int64_t layer, int64_t head) {
  for (const ExplorerMap& map : group.maps) {
    if (map.layer == layer && map.head == head) {
      return map.weights.to(DType::f32).contiguous();
    }
  }
  return Tensor::zeros({sizes.rows, sizes.columns});
}

void write_head(JsonWriter& json, int64_t head, const Tensor& weights) {
  const AttentionPatterns found = attention_patterns(weights);
  json.begin_object().field("head", head).field("entropy", found.entropy);
  json.field("mean_distance", found.mean_distance).field("pattern", name_of_pattern(found));
  json.field("diagonal", found.diagonal).field("previous", found.previous);
  json.field("first", found.first).field("local", found.local).field("uniform", found.uniform);
  json.field("induction", 0.0).field("output_share", 0.0).key("thumbnail");
  const int64_t longest = std::max(weights.size(0), weights.size(1));
  explore::write_tensor(json, pooled_map(weights, (longest + kThumbnail - 1) / kThumbnail));
  json.end_object();
}

void write_tile(JsonWriter& responses, const ExplorerMaps& group, const Sizes& sizes, int64_t layer,
                int64_t head, const Tensor& weights, const char* what) {
  int64_t level = 0;
  while ((kTile << level) < std::max(sizes.rows, sizes.columns)) {
    ++level;
  }
  responses.key(fmt::format(
      R"(POST /heed/v1/traces/t/tile {{"column":0,"head":{},"kind":"{}","layer":{},"level":{},)"
      R"("row":0,"what":"{}"}})",
      head, group.kind, layer, level, what));
  responses.begin_object().field("kind", group.kind).field("layer", layer).field("head", head);
  responses.field("what", what).field("level", level);
  explore::write_range(responses, "rows", 0, sizes.rows);
  explore::write_range(responses, "columns", 0, sizes.columns);
  responses.field("rows_per_cell", int64_t{1} << level).key("values");
  explore::write_tensor(responses, pooled_map(weights, int64_t{1} << level));
  responses.end_object();
}

void write_rows(JsonWriter& responses, const ExplorerMaps& group, const Sizes& sizes, int64_t layer,
                int64_t head, const Tensor& weights) {
  const int64_t rows = std::min<int64_t>(200, sizes.rows);
  const int64_t count = std::min<int64_t>(16, sizes.columns);
  responses.key(fmt::format(
      R"(POST /heed/v1/traces/t/rows {{"head":{},"kind":"{}","layer":{},"queries":[0,{}],)"
      R"("top_k":{}}})",
      head, group.kind, layer, rows, count));
  const auto best = top_attended(weights, count);
  const Tensor index = Tensor::full({rows, count}, -1, DType::i32);
  const Tensor weight = Tensor::zeros({rows, count});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < count; ++i) {
      const Attended& each = best[static_cast<size_t>(r)][static_cast<size_t>(i)];
      if (each.weight > 0) {
        index.data<int32_t>()[r * count + i] = static_cast<int32_t>(each.key);
        weight.data<float>()[r * count + i] = static_cast<float>(each.weight);
      }
    }
  }
  responses.begin_object();
  explore::write_range(responses, "queries", 0, rows);
  responses.key("index");
  explore::write_tensor(responses, index);
  responses.key("weight");
  explore::write_tensor(responses, weight);
  responses.end_object();
}

void write_group(JsonWriter& responses, const ExplorerMaps& group) {
  const Sizes sizes = sizes_of(group);
  const Tensor mean = Tensor::zeros({sizes.rows, sizes.columns});
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    JsonWriter heads;
    heads.begin_array();
    for (int64_t head = 0; head < sizes.heads; ++head) {
      const Tensor weights = weights_at(group, sizes, layer, head);
      write_head(heads, head, weights);
      write_tile(responses, group, sizes, layer, head, weights, "weights");
      write_rows(responses, group, sizes, layer, head, weights);
      for (int64_t i = 0; i < weights.numel(); ++i) {
        mean.data<float>()[i] +=
            weights.data<float>()[i] / static_cast<float>(sizes.layers * sizes.heads);
      }
    }
    responses.key(fmt::format(R"(POST /heed/v1/traces/t/heads {{"kind":"{}","layer":{}}})",
                              group.kind, layer));
    responses.begin_object().field("kind", group.kind).field("layer", layer);
    responses.field("rows_sampled", sizes.rows).key("heads").raw(heads.end_array().take());
    responses.end_object();
  }
  write_tile(responses, group, sizes, 0, -1, mean, "contribution");
}

void write_labels(JsonWriter& json, const std::vector<std::string>& labels) {
  json.begin_array();
  for (size_t i = 0; i < labels.size(); ++i) {
    json.begin_object().field("id", -1).field("label", labels[i]).field("text", labels[i]);
    json.field("special", false).field("group", i).field("word", i).end_object();
  }
  json.end_array();
}

bool of_target(const std::string& kind) { return kind == "decoder" || kind == "cross"; }

std::string trace_json(const std::vector<ExplorerMaps>& groups, const std::string& title) {
  JsonWriter json;
  json.begin_object().field("id", "t").field("model", title).key("input").begin_object();
  json.end_object().key("sides").begin_object();
  const std::vector<std::string>* source = nullptr;
  const std::vector<std::string>* target = nullptr;
  for (const ExplorerMaps& group : groups) {
    (of_target(group.kind) ? target : source) = &group.row_labels;
    source = group.kind == "cross" ? &group.column_labels : source;
  }
  json.key("source");
  write_labels(json, source != nullptr ? *source : *target);
  if (target != nullptr) {
    json.key("target");
    write_labels(json, *target);
  }
  json.end_object().key("attentions").begin_array();
  for (const ExplorerMaps& group : groups) {
    const Sizes sizes = sizes_of(group);
    json.begin_object().field("kind", group.kind).field("layers", sizes.layers);
    json.field("heads", sizes.heads).field("queries", sizes.rows).field("keys", sizes.columns);
    json.field("query_side", of_target(group.kind) ? "target" : "source");
    json.field("key_side", group.kind == "decoder" ? "target" : "source");
    json.field("causal", false).field("offset", 0).end_object();
  }
  json.end_array().key("predictions_at").begin_array().end_array().key("prediction");
  json.begin_object().field("position", -1).key("candidates").begin_array().end_array();
  json.end_object().key("activations").begin_array().end_array();
  json.key("interventions").begin_array().end_array().field("generated", false);
  return json.field("pass_seconds", 0.0).end_object().take();
}

}  // namespace

std::string explorer_file(const std::vector<ExplorerMaps>& groups, const std::string& title,
                          const std::string& language) {
  check(!groups.empty(), kOp, "the page has no maps");
  const std::string name = title.empty() ? "attention" : title;
  JsonWriter responses;
  responses.begin_object().key("GET /heed/v1/models").begin_object();
  responses.field("version", std::string(heed::version())).field("protocol", 1).key("models");
  responses.begin_array().raw(explore::describe_unopened(name)).end_array();
  responses.key("runs").begin_array().end_array().key("start").begin_object().end_object();
  responses.end_object();
  for (const ExplorerMaps& group : groups) {
    write_group(responses, group);
  }
  JsonWriter json;
  json.begin_object().field("version", 1).field("language", language == "ko" ? "ko" : "en");
  json.key("start").begin_object().key("trace").raw(trace_json(groups, name));
  json.field("kind", groups.front().kind).field("layer", groups.front().maps.front().layer);
  json.field("head", groups.front().maps.front().head).end_object();
  json.key("responses").raw(responses.end_object().take());
  return explorer_page_with_data(json.end_object().take());
}

}  // namespace heed
