#include <algorithm>
#include <cmath>
#include <utility>

#include "base/base64.h"
#include "base/check.h"
#include "draw/heatmap.h"
#include "draw/text_width.h"
#include "heed/image.h"
#include "heed/picture.h"
#include "io/json_writer.h"
#include "page_assets.h"

namespace heed {
namespace {

constexpr const char* kPage = "to_html";

void base64_field(JsonWriter& json, const char* name, const void* data, size_t bytes) {
  json.key(name).value(encode_base64({static_cast<const char*>(data), bytes}));
}

void labels_field(JsonWriter& json, const char* name, const std::vector<std::string>& labels) {
  json.key(name).begin_array();
  for (const std::string& label : labels) {
    json.value(visible_text(label));
  }
  json.end_array();
}

/// How many queries and keys the maps of a group stand for.
std::pair<int64_t, int64_t> extents_of(const PageGroup& group) {
  int64_t rows = static_cast<int64_t>(group.row_labels.size());
  int64_t columns = static_cast<int64_t>(group.column_labels.size());
  for (const PageMap& map : group.maps) {
    check(map.values.defined() && map.values.rank() == 2 && map.values.numel() > 0, kPage,
          "the map of layer {}, head {} is not [rows, columns]", map.layer, map.head);
    rows = std::max(rows, map.values.size(0));
    columns = std::max(columns, map.values.size(1));
  }
  check(group.row_labels.empty() || std::cmp_equal(group.row_labels.size(), rows), kPage,
        "{} row labels for {} rows", group.row_labels.size(), rows);
  check(group.column_labels.empty() || std::cmp_equal(group.column_labels.size(), columns), kPage,
        "{} column labels for {} columns", group.column_labels.size(), columns);
  return {rows, columns};
}

void write_map(JsonWriter& json, const PageMap& map, int64_t queries) {
  const Tensor values = map.values.detach().to(DType::f32).contiguous();
  float high = 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    const float value = values.data<float>()[i];
    high = std::isfinite(value) ? std::max(high, value) : high;
  }
  json.begin_object().field("layer", map.layer).field("head", map.head);
  json.field("rows", values.size(0)).field("columns", values.size(1));
  // As the absolute scale of pictures: weights from 0 to 1, with a gamma that keeps small ones
  // visible.
  constexpr float kRounding = 1e-5F;
  const bool weights = high <= 1 + kRounding;
  json.field("low", 0.0).field("high", weights ? 1.0 : static_cast<double>(high));
  json.field("gamma", weights ? 0.5 : 1.0);
  base64_field(json, "values", values.raw(), static_cast<size_t>(values.bytes()));
  if (map.top_index.defined()) {
    check(map.top_index.rank() == 2 && map.top_index.size(0) == queries &&
              map.top_weight.defined() && map.top_weight.shape() == map.top_index.shape(),
          kPage, "the strongest keys must be [{}, k]", queries);
    const Tensor index = map.top_index.to(DType::i32).contiguous();
    const Tensor weight = map.top_weight.to(DType::f32).contiguous();
    json.field("k", index.size(1));
    base64_field(json, "topIndex", index.raw(), static_cast<size_t>(index.bytes()));
    base64_field(json, "topWeight", weight.raw(), static_cast<size_t>(weight.bytes()));
  }
  json.end_object();
}

void write_group(JsonWriter& json, const PageGroup& group) {
  check(!group.maps.empty(), kPage, "group '{}' has no map", group.kind);
  const auto [rows, columns] = extents_of(group);
  json.begin_object().field("kind", group.kind);
  labels_field(json, "rows", group.row_labels);
  labels_field(json, "columns", group.column_labels);
  json.field("rowCount", rows).field("columnCount", columns);
  if (group.image.defined()) {
    check(group.patch_rows > 0 && group.patch_columns > 0 && group.first_patch >= 0 &&
              group.first_patch + group.patch_rows * group.patch_columns <= columns,
          kPage, "{} x {} patches from column {} on do not fit {} columns", group.patch_rows,
          group.patch_columns, group.first_patch, columns);
    json.field("image", "data:image/png;base64," + encode_base64(encode_png(group.image)));
    json.key("patch").begin_object();
    json.field("rows", group.patch_rows).field("columns", group.patch_columns);
    json.field("first", group.first_patch).end_object();
  }
  json.key("maps").begin_array();
  for (const PageMap& map : group.maps) {
    write_map(json, map, rows);
  }
  json.end_array().end_object();
}

std::string page_data(const AttentionPage& page) {
  JsonWriter json;
  json.begin_object().field("language", page.language == "ko" ? "ko" : "en");
  std::string colors;
  for (int i = 0; i < 256; ++i) {
    const Color color = color_at(ColorMap::ink, i / 255.0);
    for (const uint8_t part : {color.red, color.green, color.blue}) {
      colors += static_cast<char>(part);
    }
  }
  base64_field(json, "colors", colors.data(), colors.size());
  json.key("groups").begin_array();
  for (const PageGroup& group : page.groups) {
    write_group(json, group);
  }
  return json.end_array().end_object().take();
}

/// JSON inside <script>: "<" can only stand in strings, where it may be escaped.
void append_for_script(std::string& out, std::string_view json) {
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
}

}  // namespace

std::string to_html(const AttentionPage& page) {
  check(!page.groups.empty(), kPage, "the page has no maps");
  const std::string title = escape_markup(visible_text(page.title));
  std::string body = kPageHtml;
  const std::string_view mark = "@TITLE@";
  body.replace(body.find(mark), mark.size(), title);
  std::string out = "<!doctype html>\n<html lang=\"";
  out += page.language == "ko" ? "ko" : "en";
  out +=
      "\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n<title>";
  out += title + "</title>\n<style>\n" + kPageCss + "</style>\n</head>\n<body>\n" + body;
  out += "<script type=\"application/json\" id=\"data\">";
  append_for_script(out, page_data(page));
  out += "</script>\n<script>\n";
  out += kPageScript;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace heed
