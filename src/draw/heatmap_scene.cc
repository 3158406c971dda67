#include "draw/heatmap_scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/language.h"
#include "draw/text_width.h"
#include "draw/ticks.h"
#include "heed/io.h"

namespace heed {
namespace {

using Anchor = SceneItem::Anchor;

constexpr int64_t kMostValueCells = 16;    // a side, for numbers in the cells
constexpr int64_t kMostDrawnCells = 4096;  // in all; more are drawn as one image a panel
constexpr int64_t kMostPixels = 1024;      // a side of such an image
constexpr int kMostLabelColumns = 18;
constexpr double kMargin = 14;
constexpr double kBarGap = 8;
constexpr double kTallestBar = 320;
constexpr double kSmallestLabelled = 9;  // units a cell needs for a label of its own
constexpr Color kFrame{150, 153, 158};

/// Where everything goes, in the scene's units.
struct Layout {
  bool values = false;
  bool as_image = false;
  double cell_width = 0, cell_height = 0;
  double label_size = 12;
  double row_label_width = 0, column_label_height = 0;
  bool upward = false;  // column labels
  bool label_rows = false, label_columns = false;
  int64_t across = 1, down = 1;
  double panel_width = 0, panel_height = 0;  // of the cells
  double panel_title = 0, title = 0;
  double left = 0, top = 0;  // of the first panel's cells
  double gap_x = 0, gap_y = 0;
  double bars = 0;  // units right of the cells: of every panel, or of the whole
  std::vector<std::string> title_lines;
  double title_size = 16;
};

double longest(const PreparedMap& map, bool row_axis, double size) {
  double longest = 0;
  const int64_t count = row_axis ? map.rows : map.columns;
  for (int64_t i = 0; i < count; ++i) {
    const std::string label = row_axis ? map.row_label(i) : map.column_label(i);
    longest = std::max(longest, text_extent(shorten(label, kMostLabelColumns), size));
  }
  return longest;
}

void choose_cells(Layout& layout, const PreparedMap& map, const PictureOptions& options) {
  const auto panels = static_cast<int64_t>(map.values.size());
  const int64_t side = std::max(map.rows, map.columns);
  layout.values = options.values && side <= (panels == 1 ? kMostValueCells : 8);
  layout.as_image = panels * map.rows * map.columns > kMostDrawnCells;
  double cell;
  if (layout.values) {
    cell = side <= 6 ? 56 : side <= 10 ? 44 : 38;
    cell = panels == 1 ? cell : 36;
  } else {
    const double room = panels == 1 ? 620 : panels <= 4 ? 320 : 190;
    cell = std::min(room / static_cast<double>(side), 26.0);
  }
  layout.cell_width = layout.cell_height = cell;
  if (layout.as_image && cell * static_cast<double>(std::min(map.rows, map.columns)) < 60) {
    // A very long, thin map keeps a visible short side.
    (map.rows < map.columns ? layout.cell_height : layout.cell_width) =
        60.0 / static_cast<double>(std::min(map.rows, map.columns));
  }
}

void choose_labels(Layout& layout, const PreparedMap& map) {
  const auto exact = [](int64_t cells, int64_t whole) { return cells == whole; };
  layout.label_rows = exact(map.rows, map.row_extent) && layout.cell_height >= kSmallestLabelled;
  layout.label_columns =
      exact(map.columns, map.column_extent) && layout.cell_width >= kSmallestLabelled;
  layout.label_size = std::clamp(std::min(layout.cell_width, layout.cell_height) * 0.72, 8.0, 13.0);
  layout.row_label_width = layout.label_rows ? longest(map, true, layout.label_size) + 8 : 34;
  const double widest = layout.label_columns ? longest(map, false, layout.label_size) : 0;
  layout.upward = layout.label_columns && widest > layout.cell_width - 4;
  layout.column_label_height = layout.upward ? widest + 8 : layout.label_size + 10;
}

/// From the left margin to the right end of the colour bars.
double content_width(const Layout& layout) {
  const auto across = static_cast<double>(layout.across);
  return layout.left - kMargin + across * layout.panel_width + (across - 1) * layout.gap_x +
         layout.bars;
}

double title_width(const std::string& text, double size) {
  return 1.12 * text_extent(text, size);  // bold
}

/// A title that is wider than the picture is broken into lines and, if need be, made smaller: else
/// the picture would have empty space beside its map.
void choose_title(Layout& layout, const std::string& title) {
  if (title.empty()) {
    return;
  }
  const double room = std::max(content_width(layout), 240.0);
  layout.title_size = title_width(title, 16) <= room ? 16 : 13;
  std::string line;
  for (size_t begin = 0; begin < title.size();) {
    const size_t end = std::min(title.find(' ', begin), title.size());
    const std::string word = title.substr(begin, end - begin);
    const std::string longer = line.empty() ? word : fmt::format("{} {}", line, word);
    if (!line.empty() && title_width(longer, layout.title_size) > room) {
      layout.title_lines.push_back(line);
      line = word;
    } else {
      line = longer;
    }
    begin = end + 1;
  }
  layout.title_lines.push_back(line);
  layout.title = 10 + 1.25 * layout.title_size * static_cast<double>(layout.title_lines.size());
}

Layout lay_out(const PreparedMap& map, const PictureOptions& options) {
  Layout layout;
  choose_cells(layout, map, options);
  choose_labels(layout, map);
  const auto panels = static_cast<int64_t>(map.values.size());
  layout.across = panels_per_row(panels, map.source->panels_across);
  layout.down = (panels + layout.across - 1) / layout.across;
  layout.panel_width = layout.cell_width * static_cast<double>(map.columns);
  layout.panel_height = layout.cell_height * static_cast<double>(map.rows);
  const bool titled = std::any_of(map.source->panels.begin(), map.source->panels.end(),
                                  [](const HeatmapPanel& panel) { return !panel.title.empty(); });
  layout.panel_title = titled ? 20 : 0;
  for (const ColorRange& range : map.ranges) {
    layout.bars = std::max(layout.bars, kBarGap + color_bar_width(range, !map.panel_bars));
  }
  layout.left = kMargin + (map.source->row_title.empty() ? 0 : 20) + layout.row_label_width;
  layout.gap_x = 16 + (map.panel_bars ? layout.bars : 0);
  layout.gap_y = 12 + layout.panel_title;
  choose_title(layout, map.source->title);
  layout.top = kMargin + layout.title + layout.panel_title;
  return layout;
}

std::string tooltip(const PreparedMap& map, int64_t row, int64_t column, float value) {
  return fmt::format("{} {} → {} {}: {}", map.source->row_title, map.row_label(row),
                     map.source->column_title, map.column_label(column),
                     std::isfinite(value) ? fmt::format("{:.4f}", value) : short_number(value));
}

void draw_cells(Scene& scene, const PreparedMap& map, const Layout& layout, size_t panel, double x0,
                double y0) {
  const std::vector<std::string>& texts = map.source->panels[panel].texts;
  for (int64_t r = 0; r < map.rows; ++r) {
    for (int64_t c = 0; c < map.columns; ++c) {
      const float value = map.at(panel, r, c);
      const Color color = map.color(panel, r, value);
      const double x = x0 + layout.cell_width * static_cast<double>(c);
      const double y = y0 + layout.cell_height * static_cast<double>(r);
      SceneItem& cell = scene.rectangle(x, y, layout.cell_width, layout.cell_height, color);
      cell.attributes =
          fmt::format(" class=\"cell\" data-row=\"{}\" data-column=\"{}\" data-value=\"{}\"", r, c,
                      std::isfinite(value) ? fmt::format("{}", value) : short_number(value));
      cell.tooltip = tooltip(map, r, c, value);
      if (layout.values) {
        SceneItem& text = scene.label(
            x + layout.cell_width / 2, y + layout.cell_height / 2,
            texts.empty() ? short_number(value) : texts[static_cast<size_t>(r * map.columns + c)],
            layout.cell_width >= 44 ? 13 : 11, Anchor::middle);
        text.color = readable_on(color);
        text.attributes = " class=\"value\" pointer-events=\"none\"";
      }
    }
  }
}

void draw_image(Scene& scene, const PreparedMap& map, const Layout& layout, size_t panel, double x0,
                double y0) {
  const PreparedMap small = pooled(map, kMostPixels, kMostPixels);
  const Tensor& values = small.values[panel];
  const Tensor pixels = Tensor::empty({values.size(0), values.size(1), 3}, DType::u8);
  const float* in = values.data<float>();
  auto* out = pixels.data<uint8_t>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const Color color = small.color(panel, i / values.size(1), in[i]);
    out[3 * i] = color.red;
    out[3 * i + 1] = color.green;
    out[3 * i + 2] = color.blue;
  }
  scene.image(x0, y0, layout.panel_width, layout.panel_height, pixels).attributes = fmt::format(
      " class=\"map\" data-rows=\"{}\" data-columns=\"{}\"", map.row_extent, map.column_extent);
}

/// Numbered marks along an axis whose cells are too small for labels.
void draw_positions(Scene& scene, const Layout& layout, double x0, double y0, int64_t positions,
                    bool row_axis) {
  const double length = row_axis ? layout.panel_height : layout.panel_width;
  const int count = std::clamp(static_cast<int>(length / (row_axis ? 40 : 60)), 1, 8);
  const auto whole = static_cast<double>(positions);
  for (const Tick& tick : linear_ticks(0, whole - 1, count)) {
    if (tick.value != std::floor(tick.value)) {
      continue;
    }
    const double at = (tick.value + 0.5) / whole * length;
    const std::string text = fmt::format("{}", static_cast<int64_t>(tick.value));
    if (row_axis) {
      scene.line({x0 - 4, y0 + at, x0, y0 + at}, kFrame);
      scene.label(x0 - 7, y0 + at, text, 10, Anchor::end);
    } else {
      const double bottom = y0 + layout.panel_height;
      scene.line({x0 + at, bottom, x0 + at, bottom + 4}, kFrame);
      scene.label(x0 + at, bottom + 12, text, 10, Anchor::middle);
    }
  }
}

void draw_row_labels(Scene& scene, const PreparedMap& map, const Layout& layout, double x0,
                     double y0) {
  if (!layout.label_rows) {
    draw_positions(scene, layout, x0, y0, map.row_extent, true);
    return;
  }
  for (int64_t r = 0; r < map.rows; ++r) {
    SceneItem& label =
        scene.label(x0 - 6, y0 + layout.cell_height * (static_cast<double>(r) + 0.5),
                    shorten(map.row_label(r), kMostLabelColumns), layout.label_size, Anchor::end);
    label.attributes = " class=\"row-label\"";
  }
}

void draw_column_labels(Scene& scene, const PreparedMap& map, const Layout& layout, double x0,
                        double y0) {
  if (!layout.label_columns) {
    draw_positions(scene, layout, x0, y0, map.column_extent, false);
    return;
  }
  const double bottom = y0 + layout.panel_height;
  for (int64_t c = 0; c < map.columns; ++c) {
    const double x = x0 + layout.cell_width * (static_cast<double>(c) + 0.5);
    const std::string text = shorten(map.column_label(c), kMostLabelColumns);
    SceneItem& label = layout.upward
                           ? scene.label(x, bottom + 6, text, layout.label_size, Anchor::end)
                           : scene.label(x, bottom + 5 + layout.label_size / 2, text,
                                         layout.label_size, Anchor::middle);
    label.upward = layout.upward;
    label.attributes = " class=\"column-label\"";
  }
}

void draw_panel(Scene& scene, const PreparedMap& map, const Layout& layout, size_t panel) {
  const auto index = static_cast<int64_t>(panel);
  const int64_t column = index % layout.across, row = index / layout.across;
  const double x0 = layout.left + static_cast<double>(column) * (layout.panel_width + layout.gap_x);
  const double y0 = layout.top + static_cast<double>(row) * (layout.panel_height + layout.gap_y);
  if (layout.as_image) {
    draw_image(scene, map, layout, panel, x0, y0);
  } else {
    draw_cells(scene, map, layout, panel, x0, y0);
  }
  scene.rectangle(x0, y0, layout.panel_width, layout.panel_height, kFrame).stroke = -1;
  const std::string& title = map.source->panels[panel].title;
  if (!title.empty()) {
    SceneItem& label = scene.label(x0 + layout.panel_width / 2, y0 - 11, title, 12, Anchor::middle);
    label.attributes = " class=\"panel-title\"";
  }
  if (map.panel_bars) {
    draw_color_bar(scene, map, map.ranges[panel], false, x0 + layout.panel_width + kBarGap, y0,
                   layout.panel_height);
  }
  if (column == 0) {
    draw_row_labels(scene, map, layout, x0, y0);
  }
  if (index + layout.across >= static_cast<int64_t>(map.values.size())) {
    draw_column_labels(scene, map, layout, x0, y0);
  }
}

void draw_title(Scene& scene, const Layout& layout) {
  for (size_t i = 0; i < layout.title_lines.size(); ++i) {
    const double y = kMargin + layout.title_size * (0.6 + 1.25 * static_cast<double>(i));
    SceneItem& title =
        scene.label(scene.width / 2, y, layout.title_lines[i], layout.title_size, Anchor::middle);
    title.bold = true;
    title.attributes = " class=\"title\"";
  }
}

}  // namespace

Scene heatmap_scene(const PreparedMap& map, const PictureOptions& options) {
  const Layout layout = lay_out(map, options);
  const double width =
      static_cast<double>(layout.across) * (layout.panel_width + layout.gap_x) - layout.gap_x;
  const double height =
      static_cast<double>(layout.down) * (layout.panel_height + layout.gap_y) - layout.gap_y;
  Scene scene;
  scene.title = map.source->title.empty() ? map.source->value_title : map.source->title;
  const std::string_view described =
      in_language(map.source->language, say("{} heat map(s) of {} rows ({}) and {} columns ({})"));
  scene.description =
      fmt::format(fmt::runtime(described), map.values.size(), map.row_extent, map.source->row_title,
                  map.column_extent, map.source->column_title);
  scene.width = content_width(layout) + 2 * kMargin;
  for (const std::string& line : layout.title_lines) {
    scene.width = std::max(scene.width, title_width(line, layout.title_size) + 2 * kMargin);
  }
  scene.height = layout.top + height + layout.column_label_height +
                 (map.source->column_title.empty() ? 0 : 22) + kMargin;
  draw_title(scene, layout);
  for (size_t panel = 0; panel < map.values.size(); ++panel) {
    draw_panel(scene, map, layout, panel);
  }
  if (!map.source->row_title.empty()) {
    SceneItem& title = scene.label(kMargin + 8, layout.top + height / 2, map.source->row_title, 13,
                                   Anchor::middle);
    title.upward = true;
    title.attributes = " class=\"axis-title\"";
  }
  if (!map.source->column_title.empty()) {
    SceneItem& title =
        scene.label(layout.left + width / 2, layout.top + height + layout.column_label_height + 11,
                    map.source->column_title, 13, Anchor::middle);
    title.attributes = " class=\"axis-title\"";
  }
  if (!map.panel_bars) {
    draw_color_bar(scene, map, map.ranges.front(), true, layout.left + width + kBarGap, layout.top,
                   std::min(height, kTallestBar));
  }
  return scene;
}

std::string to_svg(const Heatmap& map, const PictureOptions& options) {
  return scene_to_svg(heatmap_scene(prepare(map, "to_svg"), options));
}

std::string to_png(const Heatmap& map, const PictureOptions& options) {
  const Scene scene = heatmap_scene(prepare(map, "to_png"), options);
  return encode_png(scene_to_pixels(scene, options.png_scale));
}

}  // namespace heed
