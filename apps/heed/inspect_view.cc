#include "heed/inspect_view.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/language.h"
#include "draw/text_width.h"
#include "heed/language.h"

namespace heed::app {
namespace {

std::vector<std::string> fitting(const std::vector<std::string>& labels, int64_t dim) {
  return std::cmp_equal(labels.size(), dim) ? labels : std::vector<std::string>();
}

}  // namespace

std::vector<std::string> Inspection::row_labels(const RecordedAttention& attention) const {
  const std::string& kind = attention.place.kind;
  if (kind == "readout" && attention.queries() == 1) {
    return {input.asked};
  }
  return labels_of(kind == "cross" ? "decoder" : kind, attention.queries());
}

std::vector<std::string> Inspection::column_labels(const RecordedAttention& attention) const {
  return labels_of(attention.place.kind, attention.keys());
}

std::vector<std::string> Inspection::labels_of(const std::string& kind, int64_t count) const {
  return fitting(kind == "decoder" ? input.target
                 : kind == "text"  ? input.text
                                   : input.source,
                 count);
}

std::vector<AttentionKind> kinds_of(const Recorder& recorder) {
  std::vector<AttentionKind> kinds;
  for (const RecordedAttention& each : recorder.attentions()) {
    auto known = std::find_if(kinds.begin(), kinds.end(), [&](const AttentionKind& kind) {
      return kind.kind == each.place.kind;
    });
    if (known == kinds.end()) {
      known = kinds.insert(kinds.end(), {each.place.kind, 0, 0});
    }
    known->layers = std::max(known->layers, each.place.layer + 1);
    known->heads = std::max(known->heads, each.heads());
  }
  return kinds;
}

InspectView::InspectView(const Inspection& inspection, const InspectOptions& options)
    : inspection_(inspection), options_(options) {
  if (inspection.recorder->attentions().empty()) {
    fail_nothing_there();
  }
  kind_ = options.kind.empty() ? default_kind() : options.kind;
  choose();
}

std::string InspectView::default_kind() const {
  const auto& all = inspection_.recorder->attentions();
  for (const char* kind : {"readout", "self", "cross"}) {
    for (const RecordedAttention& each : all) {
      if (each.place.kind == kind) {
        return kind;
      }
    }
  }
  return all.front().place.kind;
}

/// Every map for files that hold many; the last layer's heads for a single picture.
void InspectView::choose() {
  const bool many = options_.format == "json" || options_.format == "npy";
  int64_t layer = options_.layer;
  for (const RecordedAttention& each : inspection_.recorder->attentions()) {
    if (!many && options_.layer < 0 && each.place.kind == kind_) {
      layer = std::max(layer, each.place.layer);
    }
  }
  for (const RecordedAttention& each : inspection_.recorder->attentions()) {
    if (each.place.kind != kind_ || (layer >= 0 && each.place.layer != layer)) {
      continue;
    }
    for (int64_t head = 0; head < each.heads(); ++head) {
      if (options_.head < 0 || options_.head == head) {
        chosen_.push_back({&each, head});
      }
    }
  }
  if (chosen_.empty() && !options_.heads_table) {
    fail_nothing_there();
  }
}

/// Says what was asked for and what there is.
void InspectView::fail_nothing_there() const {
  std::string wanted = options_.kind.empty() ? "" : options_.kind + " ";
  if (options_.layer >= 0) {
    wanted += tell("layer {}", options_.layer);
  }
  if (options_.head >= 0) {
    wanted += (options_.layer >= 0 ? " " : "") + tell("head {}", options_.head);
  }
  std::vector<std::string> there;
  const std::vector<AttentionKind> recorded = kinds_of(*inspection_.recorder);
  for (const AttentionKind& each : inspection_.kinds.empty() ? recorded : inspection_.kinds) {
    there.push_back(
        tell("{}: layers 0 to {}, heads 0 to {}", each.kind, each.layers - 1, each.heads - 1));
  }
  if (there.empty()) {
    fail(ErrorKind::usage, "inspect",
         "{} has no attention weights to show: it mixes its tokens in another way",
         inspection_.model_type);
  }
  fail(ErrorKind::usage, "inspect", "the model has no {}; it has {}", wanted,
       fmt::join(there, "; "));
}

Tensor InspectView::values_of(const Chosen& each, int64_t rows, int64_t columns) const {
  const RecordedAttention& attention = *each.attention;
  if (options_.show == "values") {
    return max_pool_map(attention.value_weighted(0, each.head), rows, columns);
  }
  if (options_.show == "gradient") {
    return max_pool_map(attention.gradient_map(0, each.head), rows, columns);
  }
  return attention.pooled(0, each.head, rows, columns);
}

namespace {

/// Names that come from elsewhere, for the catalogue of messages.
[[maybe_unused]] constexpr const char* kNames[] = {
    say("self"),    say("encoder"), say("decoder"),  say("cross"),          say("text"),
    say("vision"),  say("readout"), say("diagonal"), say("previous token"), say("first token"),
    say("uniform"), say("local"),   say("mixed")};

}  // namespace

std::string InspectView::kind_name(const std::string& kind) const {
  return std::string(translate(kind));
}

std::string InspectView::pattern_name(const std::string& pattern) const {
  return std::string(translate(pattern));
}

std::string InspectView::title() const {
  const std::string& file = options_.audio.empty() ? options_.image : options_.audio;
  std::string text = options_.text.value_or(std::filesystem::path(file).filename().string());
  constexpr int kMost = 60;
  text = shorten(text, kMost);
  if (options_.rollout) {
    return fmt::format("{} · {}", text, tell("attention rollout"));
  }
  if (kind_ == "readout" && chosen_.size() == 1) {
    return fmt::format("{} · {}", text, kind_name(kind_));
  }
  const std::set<int64_t> layers = this->layers();
  return layers.size() == 1 ? fmt::format("{} · {}", text, tell("layer {}", *layers.begin()))
                            : text;
}

std::set<int64_t> InspectView::layers() const {
  std::set<int64_t> layers;
  for (const Chosen& each : chosen_) {
    layers.insert(each.attention->place.layer);
  }
  return layers;
}

Heatmap InspectView::heatmap(int64_t rows, int64_t columns) const {
  Heatmap map;
  const RecordedAttention& first = *chosen_.front().attention;
  map.title = title();
  set_language(map, options_.language);
  if (options_.show == "values") {
    map.value_title = tell("Weight × value");
  } else if (options_.show == "gradient") {
    map.value_title = tell("Weight × gradient");
  }
  map.scale = color_scale_from_name(options_.scale);
  if (!options_.colors.empty()) {
    map.colors = color_map_from_name(options_.colors);
  }
  map.row_labels = inspection_.row_labels(first);
  map.column_labels = inspection_.column_labels(first);
  map.row_extent = first.queries();
  map.column_extent = first.keys();
  if (options_.rollout) {
    map.panels.push_back(
        {"", max_pool_map(attention_rollout(*inspection_.recorder, kind_), rows, columns)});
    hide_special(map);
    return map;
  }
  for (const Chosen& each : chosen_) {
    map.panels.push_back(
        {chosen_.size() == 1 && options_.head < 0 ? "" : tell("Head {}", each.head),
         values_of(each, rows, columns)});
  }
  hide_special(map);
  return map;
}

/// Leaves the rows and columns of special tokens out. What they had of the weights is not given to
/// others.
void InspectView::hide_special(Heatmap& map) const {
  if (!options_.hide_special) {
    return;
  }
  const InspectInput& input = inspection_.input;
  const bool target_rows = kind_ == "decoder" || kind_ == "cross";
  const auto kept = [](const std::vector<bool>& special, int64_t count) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < count; ++i) {
      if (std::cmp_not_equal(special.size(), count) || !special[static_cast<size_t>(i)]) {
        places.push_back(i);
      }
    }
    return places;
  };
  const Tensor& first = map.panels.front().values;
  const std::vector<int64_t> rows =
      kept(target_rows ? input.target_special : input.source_special, first.size(0));
  const std::vector<int64_t> columns =
      kept(kind_ == "decoder" ? input.target_special : input.source_special, first.size(1));
  if (rows.empty() || columns.empty()) {
    fail(ErrorKind::usage, "--hide-special", "nothing but special tokens is there");
  }
  for (HeatmapPanel& panel : map.panels) {
    const Tensor all = panel.values.to(DType::f32).contiguous();
    panel.values =
        Tensor::empty({static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns.size())});
    float* out = panel.values.data<float>();
    for (const int64_t r : rows) {
      for (const int64_t c : columns) {
        *out++ = all.data<float>()[r * all.size(1) + c];
      }
    }
  }
  const auto pick = [](std::vector<std::string>& labels, const std::vector<int64_t>& places) {
    std::vector<std::string> picked;
    picked.reserve(places.size());
    for (const int64_t place : places) {
      picked.push_back(labels[static_cast<size_t>(place)]);
    }
    labels = labels.empty() ? labels : std::move(picked);
  };
  if (!map.row_labels.empty()) {
    pick(map.row_labels, rows);
  }
  if (!map.column_labels.empty()) {
    pick(map.column_labels, columns);
  }
  map.row_extent = std::min<int64_t>(map.row_extent, static_cast<int64_t>(rows.size()));
  map.column_extent = std::min<int64_t>(map.column_extent, static_cast<int64_t>(columns.size()));
}

/// The grid that an attention looks at: the patches, or what is left of them where stages merge two
/// by two (Swin), filled up to whole windows.
InspectView::PatchGrid InspectView::grid_of(const RecordedAttention& attention) const {
  const InspectInput& input = inspection_.input;
  PatchGrid grid{input.patch_rows, input.patch_columns, input.patch_columns};
  if (input.vision.window > 0) {
    int64_t stage = 0;
    std::sscanf(attention.place.name.c_str(), "stages.%" SCNd64, &stage);
    const StageGrid found = stage_grid(input.vision, stage);
    grid = {found.rows, found.columns, found.all_columns};
  }
  return grid;
}

/// The weights of a query, which cross-attentions count as they come and the others by patches.
Tensor InspectView::patch_weights(const Chosen& each, int64_t query) const {
  const int64_t first = inspection_.input.first_patch;
  const auto [rows, columns, stride] = grid_of(*each.attention);
  if (stride != columns) {
    query = query / columns * stride + query % columns;
  }
  return each.attention->record
      .weights(0, each.head, query, query + 1, first, first + rows * stride)
      .to(DType::f32)
      .alias({rows, columns}, {stride, 1}, 0);
}

PatchPicture InspectView::patches() const {
  const RecordedAttention& first = *chosen_.front().attention;
  const InspectInput& input = inspection_.input;
  const auto [rows, columns, stride] = grid_of(first);
  if (!input.image.defined() || kind_ == "decoder" || kind_ == "text" || rows * columns <= 1) {
    fail(ErrorKind::usage, "--patches", "this attention does not look at an image");
  }
  PatchPicture picture;
  picture.title = title();
  picture.language = options_.language;
  picture.image = input.image;
  picture.scale = color_scale_from_name(options_.scale);
  if (kind_ == "cross" && chosen_.size() == 1) {
    const std::vector<std::string> words = inspection_.row_labels(first);
    for (int64_t query = 0; query < first.queries(); ++query) {
      picture.panels.push_back(
          {words.empty() ? std::to_string(query) : words[static_cast<size_t>(query)],
           patch_weights(chosen_.front(), query)});
    }
    return picture;
  }
  const int64_t queries = input.vision.window > 0 ? rows * columns : first.queries();
  if (options_.query >= queries) {
    fail(ErrorKind::usage, "--query", "{} is not among the {} queries", options_.query, queries);
  }
  for (const Chosen& each : chosen_) {
    picture.panels.push_back({tell("Head {}", each.head), patch_weights(each, options_.query)});
  }
  return picture;
}

}  // namespace heed::app
