#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "draw/scene.h"
#include "draw/ticks.h"
#include "heed/io.h"

namespace heed {
namespace {

using Anchor = SceneItem::Anchor;

// Dark enough on white and apart from each other for the colour-blind; from the eighth on dashed.
constexpr std::array<Color, 7> kLineColors{{{0, 92, 175},
                                            {210, 95, 0},
                                            {0, 140, 110},
                                            {175, 60, 130},
                                            {70, 70, 75},
                                            {165, 120, 0},
                                            {70, 165, 215}}};
constexpr Color kGrid{226, 228, 231};
constexpr Color kAxis{110, 113, 118};

/// One axis: values on it, and where they are drawn.
struct Axis {
  bool log = false;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double begin = 0, end = 1;  // in the scene

  bool takes(double value) const { return std::isfinite(value) && (!log || value > 0); }
  void include(double value) {
    if (takes(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  /// Widens the range a little, and makes one where there is none.
  void settle(double margin) {
    if (low > high) {
      low = log ? 0.1 : 0.0;
      high = 1.0;
    }
    if (log) {
      const double factor = low == high ? 2.0 : std::pow(high / low, margin);
      low /= factor;
      high *= factor;
      return;
    }
    const double room = low == high ? std::max(std::abs(low) * 0.1, 0.5) : (high - low) * margin;
    const bool from_zero = low >= 0 && low - room < 0;
    low = from_zero ? 0 : low - room;
    high += room;
  }
  double place(double value) const {
    const double share =
        log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + share * (end - begin);
  }
  std::vector<Tick> ticks(int count) const {
    return log ? log_ticks(low, high) : linear_ticks(low, high, count);
  }
};

void check_plot(const LinePlot& plot) {
  check(plot.width >= 200 && plot.height >= 120 && plot.width <= 8000 && plot.height <= 8000,
        "plot", "a size of {} x {} is not within 200 x 120 and 8000 x 8000", plot.width,
        plot.height);
  for (const Series& series : plot.series) {
    check(series.x.size() == series.y.size(), "plot", "series '{}' has {} x and {} y values",
          series.name, series.x.size(), series.y.size());
  }
}

void draw_axes(Scene& scene, const LinePlot& plot, const Axis& x, const Axis& y) {
  for (const Tick& tick : y.ticks(std::max(static_cast<int>((y.begin - y.end) / 48), 2))) {
    const double at = y.place(tick.value);
    scene.line({x.begin, at, x.end, at}, kGrid);
    scene.label(x.begin - 8, at, tick.text, 11, Anchor::end).attributes = " class=\"tick\"";
  }
  for (const Tick& tick : x.ticks(std::max(static_cast<int>((x.end - x.begin) / 80), 2))) {
    const double at = x.place(tick.value);
    scene.line({at, y.begin, at, y.begin + 4}, kAxis);
    scene.label(at, y.begin + 14, tick.text, 11, Anchor::middle).attributes = " class=\"tick\"";
  }
  scene.line({x.begin, y.begin, x.end, y.begin}, kAxis);
  if (!plot.x_title.empty()) {
    scene.label((x.begin + x.end) / 2, y.begin + 34, plot.x_title, 12, Anchor::middle).attributes =
        " class=\"axis-title\"";
  }
  if (!plot.y_title.empty()) {
    SceneItem& title = scene.label(16, (y.begin + y.end) / 2, plot.y_title, 12, Anchor::middle);
    title.upward = true;
    title.attributes = " class=\"axis-title\"";
  }
}

void draw_series(Scene& scene, const LinePlot& plot, size_t index, const Axis& x, const Axis& y) {
  const Series& series = plot.series[index];
  const Color color = kLineColors[index % kLineColors.size()];
  std::vector<double> points;
  const auto finish = [&] {
    if (!points.empty()) {
      SceneItem& line = scene.line(std::exchange(points, {}), color, 1.8);
      line.dashed = index >= kLineColors.size();
      line.attributes = fmt::format(" class=\"series\" data-series=\"{}\"", index);
      line.tooltip = series.name;
    }
  };
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!x.takes(series.x[i]) || !y.takes(series.y[i])) {
      finish();
      continue;
    }
    points.push_back(x.place(series.x[i]));
    points.push_back(y.place(series.y[i]));
    if (plot.markers) {
      SceneItem& mark =
          scene.rectangle(points[points.size() - 2] - 3, points.back() - 3, 6, 6, color);
      mark.tooltip = fmt::format("{}: {:g}, {:g}", series.name, series.x[i], series.y[i]);
    }
  }
  finish();
}

void draw_legend(Scene& scene, const LinePlot& plot, double left, double top) {
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const double y = top + 8 + 18 * static_cast<double>(i);
    scene.line({left, y, left + 20, y}, kLineColors[i % kLineColors.size()], 2.4).dashed =
        i >= kLineColors.size();
    SceneItem& name = scene.label(left + 26, y, plot.series[i].name, 12, Anchor::start);
    name.attributes = " class=\"legend\"";
  }
}

Scene plot_scene(const LinePlot& plot) {
  check_plot(plot);
  Axis x, y;
  x.log = plot.log_x;
  y.log = plot.log_y;
  double names = 0;
  for (const Series& series : plot.series) {
    names = std::max(names, text_extent(series.name, 12));
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (x.takes(series.x[i]) && y.takes(series.y[i])) {
        x.include(series.x[i]);
        y.include(series.y[i]);
      }
    }
  }
  x.settle(0.0);
  y.settle(0.05);
  const bool legend = plot.series.size() > 1;
  const double beside = legend ? std::min(names + 48, plot.width / 2.5) : 20;
  double tick_width = 0;
  for (const Tick& tick : y.ticks(8)) {
    tick_width = std::max(tick_width, text_extent(tick.text, 11));
  }
  x.begin = 16 + (plot.y_title.empty() ? 0 : 18) + tick_width + 8;
  x.end = plot.width - beside;
  y.begin = plot.height - (plot.x_title.empty() ? 32 : 52);
  y.end = plot.title.empty() ? 16 : 44;
  Scene scene;
  scene.width = plot.width;
  scene.height = plot.height;
  scene.title = plot.title.empty() ? plot.y_title : plot.title;
  scene.description = fmt::format("Line plot of {} series", plot.series.size());
  if (!plot.title.empty()) {
    SceneItem& title = scene.label((x.begin + x.end) / 2, 22, plot.title, 16, Anchor::middle);
    title.bold = true;
    title.attributes = " class=\"title\"";
  }
  draw_axes(scene, plot, x, y);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    draw_series(scene, plot, i, x, y);
  }
  if (legend) {
    draw_legend(scene, plot, x.end + 16, y.end);
  }
  return scene;
}

}  // namespace

std::string to_svg(const LinePlot& plot) { return scene_to_svg(plot_scene(plot)); }

std::string to_png(const LinePlot& plot, double scale) {
  return encode_png(scene_to_pixels(plot_scene(plot), scale));
}

}  // namespace heed
