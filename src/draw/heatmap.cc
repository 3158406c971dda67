#include "draw/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/parallel.h"
#include "io/json_writer.h"

namespace heed {
namespace {

/// Smallest and largest of the finite values; low > high where there is none.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

constexpr double kGamma = 0.5;         // of the absolute scale: 1 % of the weight shows as 10 %
constexpr double kLogDecades = 4;      // of the logarithmic scale
constexpr double kRounding = 1e-5;     // a weight may be this much above 1
constexpr size_t kMostPanelBars = 16;  // panels with a colour bar each
constexpr double kMaskedShare = -1;    // of what has no colour

Range finite_range(const Tensor& values) {
  Range range;
  const float* data = values.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (std::isfinite(data[i])) {
      range.low = std::min<double>(range.low, data[i]);
      range.high = std::max<double>(range.high, data[i]);
    }
  }
  return range;
}

/// The largest value of every row; 0 where it has none.
std::vector<float> row_highs(const Tensor& values) {
  std::vector<float> highs(static_cast<size_t>(values.size(0)));
  const float* data = values.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    float& high = highs[static_cast<size_t>(i / values.size(1))];
    high = std::isfinite(data[i]) ? std::max(high, data[i]) : high;
  }
  return highs;
}

/// The range of values that share colours: all panels, or one panel where each has its own bar and
/// the scale goes by the values.
ColorRange range_for(const Heatmap& map, const Range& range, bool signed_values) {
  const bool any = range.low <= range.high;
  const double magnitude = any ? std::max(std::abs(range.low), std::abs(range.high)) : 1.0;
  const bool weights = !signed_values && magnitude <= 1.0 + kRounding;
  ColorRange result;
  result.scale = signed_values ? ColorScale::linear : map.scale;
  if (result.scale == ColorScale::absolute && !weights) {
    result.scale = ColorScale::linear;
  }
  const bool whole = result.scale == ColorScale::absolute || result.scale == ColorScale::row ||
                     (result.scale == ColorScale::log && weights);
  result.high = map.high.value_or(whole ? 1.0 : magnitude);
  const double bottom =
      result.scale == ColorScale::log ? result.high * std::pow(10.0, -kLogDecades) : 0.0;
  result.low = map.low.value_or(signed_values ? -magnitude : bottom);
  if (!(result.high > result.low)) {
    result.high = result.low + 1.0;
  }
  if (result.scale == ColorScale::log && !(result.low > 0)) {
    result.low = result.high * std::pow(10.0, -kLogDecades);
  }
  return result;
}

void settle_range(PreparedMap& map) {
  Range all;
  for (const Tensor& values : map.values) {
    const Range one = finite_range(values);
    all.low = std::min(all.low, one.low);
    all.high = std::max(all.high, one.high);
  }
  const bool signed_values = all.low <= all.high && all.low < 0;
  const size_t panels = map.values.size();
  map.panel_bars = panels > 1 && map.source->panel_bars.value_or(panels <= kMostPanelBars);
  const bool own = map.panel_bars && map.source->scale == ColorScale::linear && !signed_values;
  for (const Tensor& values : map.values) {
    map.ranges.push_back(range_for(*map.source, own ? finite_range(values) : all, signed_values));
    if (map.ranges.back().scale == ColorScale::row) {
      map.row_highs.push_back(row_highs(values));
    }
  }
  map.colors = map.source->colors.value_or(signed_values ? ColorMap::diverging : ColorMap::ink);
}

void check_labels(const std::vector<std::string>& labels, int64_t dim, const char* op,
                  const char* axis) {
  check(labels.empty() || std::cmp_equal(labels.size(), dim), op, "{} {} labels for {} {}s",
        labels.size(), axis, dim, axis);
}

/// "cat" where a cell is one token; "128–143" where it stands for several.
std::string label_of(const std::vector<std::string>& labels, int64_t index, int64_t cells,
                     int64_t dim) {
  if (cells == dim) {
    return labels.empty() ? std::to_string(index) : labels[static_cast<size_t>(index)];
  }
  const int64_t begin = index * dim / cells;
  const int64_t end = (index + 1) * dim / cells;
  return end - begin <= 1 ? std::to_string(begin) : fmt::format("{}–{}", begin, end - 1);
}

}  // namespace

int64_t panels_per_row(int64_t panels, int64_t wanted) {
  if (wanted > 0) {
    return std::min(wanted, panels);
  }
  constexpr double kEmptyPlace = 0.75;  // an empty place counts as much as this many columns
  const double ideal = std::sqrt(2.0 * static_cast<double>(panels));
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t across = 1; across <= panels; ++across) {
    const int64_t empty = (across - panels % across) % across;
    const double cost =
        std::abs(static_cast<double>(across) - ideal) + kEmptyPlace * static_cast<double>(empty);
    if (cost < least) {
      best = across;
      least = cost;
    }
  }
  return best;
}

double ColorRange::share(double value) const {
  if (scale == ColorScale::log) {
    return value > 0 ? std::log(value / low) / std::log(high / low) : 0.0;
  }
  const double linear = (value - low) / (high - low);
  return scale == ColorScale::absolute && linear > 0 ? std::pow(linear, kGamma) : linear;
}

double ColorRange::value_at(double share) const {
  if (scale == ColorScale::log) {
    return low * std::pow(high / low, share);
  }
  return low + (high - low) * (scale == ColorScale::absolute ? std::pow(share, 1 / kGamma) : share);
}

double PreparedMap::share(size_t panel, int64_t row, float value) const {
  if (std::isnan(value) || value == -std::numeric_limits<float>::infinity()) {
    return kMaskedShare;
  }
  if (ranges[panel].scale == ColorScale::row) {
    const float high = row_highs[panel][static_cast<size_t>(row)];
    return high > 0 ? static_cast<double>(value / high) : 0.0;
  }
  return ranges[panel].share(static_cast<double>(value));
}

Color PreparedMap::color(size_t panel, int64_t row, float value) const {
  const double place = share(panel, row, value);
  return place == kMaskedShare && !(value > -std::numeric_limits<float>::infinity())
             ? kMaskedColor
             : color_at(colors, place);
}

std::string PreparedMap::row_label(int64_t row) const {
  return label_of(source->row_labels, row, rows, row_extent);
}

std::string PreparedMap::column_label(int64_t column) const {
  return label_of(source->column_labels, column, columns, column_extent);
}

PreparedMap prepare(const Heatmap& map, const char* op) {
  check(!map.panels.empty(), op, "the heat map has no panel");
  PreparedMap prepared;
  prepared.source = &map;
  for (const HeatmapPanel& panel : map.panels) {
    check(panel.values.defined() && panel.values.rank() == 2, op,
          "values must be [rows, columns], got {}",
          panel.values.defined() ? panel.values.shape().to_string() : "nothing");
    check(panel.values.shape() == map.panels[0].values.shape(), op,
          "panels of different shapes: {} and {}", map.panels[0].values.shape(),
          panel.values.shape());
    check(panel.texts.empty() || std::cmp_equal(panel.texts.size(), panel.values.numel()), op,
          "{} texts for {} cells", panel.texts.size(), panel.values.numel());
    prepared.values.push_back(panel.values.detach().to(DType::f32).contiguous());
  }
  prepared.rows = prepared.values[0].size(0);
  prepared.columns = prepared.values[0].size(1);
  check(prepared.rows > 0 && prepared.columns > 0, op, "the heat map is empty: {}",
        prepared.values[0].shape());
  prepared.row_extent = std::max(map.row_extent, prepared.rows);
  prepared.column_extent = std::max(map.column_extent, prepared.columns);
  check_labels(map.row_labels, prepared.row_extent, op, "row");
  check_labels(map.column_labels, prepared.column_extent, op, "column");
  check(!map.low || std::isfinite(*map.low), op, "the range must be finite");
  check(!map.high || std::isfinite(*map.high), op, "the range must be finite");
  settle_range(prepared);
  return prepared;
}

PreparedMap pooled(const PreparedMap& map, int64_t max_rows, int64_t max_columns) {
  PreparedMap small = map;
  for (size_t panel = 0; panel < small.values.size(); ++panel) {
    Tensor& values = small.values[panel];
    values = max_pool_map(values, max_rows, max_columns);
    if (!small.row_highs.empty()) {
      small.row_highs[panel] = row_highs(values);
    }
  }
  small.rows = small.values[0].size(0);
  small.columns = small.values[0].size(1);
  return small;
}

Tensor max_pool_map(const Tensor& values, int64_t max_rows, int64_t max_columns) {
  check(values.defined() && values.rank() == 2, "max_pool_map", "values must be [rows, columns]");
  check(max_rows > 0 && max_columns > 0, "max_pool_map", "{} x {} cells asked for", max_rows,
        max_columns);
  Tensor full = values.detach().to(DType::f32).contiguous();
  const int64_t rows = full.size(0), columns = full.size(1);
  const int64_t out_rows = std::min(rows, max_rows), out_columns = std::min(columns, max_columns);
  if (out_rows == rows && out_columns == columns) {
    return full;
  }
  Tensor result = Tensor::empty({out_rows, out_columns});
  const float* in = full.data<float>();
  float* out = result.data<float>();
  parallel_for(out_rows, [&](int64_t r) {
    float* best = out + r * out_columns;
    std::fill(best, best + out_columns, -std::numeric_limits<float>::infinity());
    for (int64_t i = r * rows / out_rows; i < (r + 1) * rows / out_rows; ++i) {
      for (int64_t c = 0; c < out_columns; ++c) {
        const int64_t end = (c + 1) * columns / out_columns;
        for (int64_t j = c * columns / out_columns; j < end; ++j) {
          best[c] =
              std::isnan(in[i * columns + j]) ? best[c] : std::max(best[c], in[i * columns + j]);
        }
      }
    }
  });
  return result;
}

std::string short_number(float value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "∞" : "−∞";
  }
  const double size = std::abs(value);
  if (size >= 1e4) {
    return fmt::format("{:.0e}", value);
  }
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::string to_json(const Heatmap& map) {
  const PreparedMap prepared = prepare(map, "to_json");
  JsonWriter json;
  json.begin_object().field("title", map.title);
  json.field("row_title", map.row_title).field("column_title", map.column_title);
  json.field("value_title", map.value_title);
  json.field("row_labels", map.row_labels).field("column_labels", map.column_labels);
  json.field("rows", prepared.row_extent).field("columns", prepared.column_extent);
  json.key("maps").begin_array();
  for (size_t p = 0; p < map.panels.size(); ++p) {
    json.begin_object().field("title", map.panels[p].title).key("values").begin_array();
    for (int64_t r = 0; r < prepared.rows; ++r) {
      json.begin_array();
      for (int64_t c = 0; c < prepared.columns; ++c) {
        // The shortest text that gives the same float: "0.1", not "0.10000000149011612".
        const float value = prepared.at(p, r, c);
        json.raw(std::isfinite(value) ? fmt::format("{}", value) : "null");
      }
      json.end_array();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take();
}

Tensor to_tensor(const Heatmap& map) {
  const PreparedMap prepared = prepare(map, "to_tensor");
  if (prepared.values.size() == 1) {
    return prepared.values[0].clone();
  }
  const auto count = static_cast<int64_t>(prepared.values.size());
  Tensor all = Tensor::empty({count, prepared.rows, prepared.columns});
  for (int64_t p = 0; p < count; ++p) {
    const float* from = prepared.values[static_cast<size_t>(p)].data<float>();
    std::copy(from, from + prepared.rows * prepared.columns,
              all.data<float>() + p * prepared.rows * prepared.columns);
  }
  return all;
}

}  // namespace heed
