#include "heed/inspect_view.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "heed/language.h"
#include "inspect/text_width.h"

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
  return fitting(kind == "decoder" || kind == "cross" ? input.target : input.source,
                 attention.queries());
}

std::vector<std::string> Inspection::column_labels(const RecordedAttention& attention) const {
  return fitting(attention.place.kind == "decoder" ? input.target : input.source, attention.keys());
}

InspectView::InspectView(const Inspection& inspection, const InspectOptions& options)
    : inspection_(inspection), options_(options) {
  if (inspection.recorder->attentions().empty()) {
    fail(ErrorKind::usage, "inspect", "no attention of the kind and layer asked for");
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
  const bool many =
      options_.format == "html" || options_.format == "json" || options_.format == "npy";
  int64_t layer = options_.layer;
  for (const RecordedAttention& each : inspection_.recorder->attentions()) {
    if (!many && options_.layer < 0 && each.place.kind == kind_) {
      layer = std::max(layer, each.place.layer);
    }
  }
  const bool all_kinds = options_.format == "html" && options_.kind.empty();
  for (const RecordedAttention& each : inspection_.recorder->attentions()) {
    if ((!all_kinds && each.place.kind != kind_) || (layer >= 0 && each.place.layer != layer)) {
      continue;
    }
    for (int64_t head = 0; head < each.heads(); ++head) {
      if (options_.head < 0 || options_.head == head) {
        chosen_.push_back({&each, head});
      }
    }
  }
  if (chosen_.empty() && !options_.heads_table) {
    fail(ErrorKind::usage, "inspect", "there is no {} layer {} with head {}", kind_, options_.layer,
         options_.head);
  }
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

using Names = std::initializer_list<std::pair<const char*, const char*>>;

std::string translated(const std::string& english, const Names& names) {
  for (const auto& [name, korean] : names) {
    if (english == name) {
      return korean;
    }
  }
  return english;
}

}  // namespace

std::string InspectView::kind_name(const std::string& kind) const {
  return options_.language != "ko" ? kind
                                   : translated(kind, {{"self", "셀프"},
                                                       {"encoder", "인코더"},
                                                       {"decoder", "디코더"},
                                                       {"cross", "크로스"},
                                                       {"readout", "판독"}});
}

std::string InspectView::pattern_name(const std::string& pattern) const {
  return options_.language != "ko" ? pattern
                                   : translated(pattern, {{"diagonal", "대각선"},
                                                          {"previous token", "앞 토큰"},
                                                          {"first token", "첫 토큰"},
                                                          {"uniform", "고름"},
                                                          {"local", "가까운 곳"},
                                                          {"mixed", "섞임"}});
}

std::string InspectView::title() const {
  std::string text =
      options_.text.value_or(std::filesystem::path(options_.image).filename().string());
  constexpr int kMost = 60;
  text = shorten(text, kMost);
  if (options_.rollout) {
    return fmt::format("{} · {}", text, word("attention rollout", "어텐션 롤아웃"));
  }
  if (kind_ == "readout" && chosen_.size() == 1) {
    return fmt::format("{} · {}", text, kind_name(kind_));
  }
  const std::set<int64_t> layers = this->layers();
  return layers.size() == 1
             ? fmt::format("{} · {} {}", text, word("layer", "레이어"), *layers.begin())
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
    map.value_title = word("Weight × value", "가중치 × 값");
  } else if (options_.show == "gradient") {
    map.value_title = word("Weight × gradient", "가중치 × 기울기");
  }
  map.row_labels = inspection_.row_labels(first);
  map.column_labels = inspection_.column_labels(first);
  map.row_extent = first.queries();
  map.column_extent = first.keys();
  if (options_.rollout) {
    map.panels.push_back(
        {"", max_pool_map(attention_rollout(*inspection_.recorder, kind_), rows, columns)});
    return map;
  }
  for (const Chosen& each : chosen_) {
    map.panels.push_back({chosen_.size() == 1 && options_.head < 0
                              ? ""
                              : fmt::format("{} {}", word("Head", "헤드"), each.head),
                          values_of(each, rows, columns)});
  }
  return map;
}

Tensor InspectView::patch_weights(const Chosen& each, int64_t query) const {
  const InspectInput& input = inspection_.input;
  const int64_t first = input.first_patch;
  return each.attention->record
      .weights(0, each.head, query, query + 1, first,
               first + input.patch_rows * input.patch_columns)
      .to(DType::f32)
      .alias({input.patch_rows, input.patch_columns}, {input.patch_columns, 1}, 0);
}

PatchPicture InspectView::patches() const {
  const RecordedAttention& first = *chosen_.front().attention;
  const InspectInput& input = inspection_.input;
  if (!input.image.defined() || kind_ == "decoder" ||
      first.keys() < input.first_patch + input.patch_rows * input.patch_columns) {
    fail(ErrorKind::usage, "--patches", "this attention does not look at an image");
  }
  PatchPicture picture;
  picture.title = title();
  picture.language = options_.language;
  picture.image = input.image;
  if (kind_ == "cross" && chosen_.size() == 1) {
    const std::vector<std::string> words = inspection_.row_labels(first);
    for (int64_t query = 0; query < first.queries(); ++query) {
      picture.panels.push_back(
          {words.empty() ? std::to_string(query) : words[static_cast<size_t>(query)],
           patch_weights(chosen_.front(), query)});
    }
    return picture;
  }
  if (options_.query >= first.queries()) {
    fail(ErrorKind::usage, "--query", "{} is not among the {} queries", options_.query,
         first.queries());
  }
  for (const Chosen& each : chosen_) {
    picture.panels.push_back({fmt::format("{} {}", word("Head", "헤드"), each.head),
                              patch_weights(each, options_.query)});
  }
  return picture;
}

}  // namespace heed::app
