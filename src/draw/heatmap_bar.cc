#include <algorithm>
#include <cmath>

#include "draw/heatmap_scene.h"
#include "draw/ticks.h"

namespace heed {
namespace {

using Anchor = SceneItem::Anchor;

constexpr double kBarWidth = 14;
constexpr double kPanelBarWidth = 8;
constexpr Color kFrame{150, 153, 158};
constexpr double kLeastBetweenTicks = 13;

std::vector<Tick> bar_ticks(const ColorRange& range, double height) {
  if (range.scale == ColorScale::log) {
    return log_ticks(range.low, range.high);
  }
  if (range.scale == ColorScale::absolute && range.low == 0 && range.high == 1) {
    return {{0, "0"}, {0.05, "0.05"}, {0.2, "0.2"}, {0.5, "0.5"}, {1, "1"}};
  }
  return linear_ticks(range.low, range.high, std::clamp(static_cast<int>(height / 36), 2, 6));
}

}  // namespace

double color_bar_width(const ColorRange& range, bool titled) {
  double widest = 0;
  for (const Tick& tick : bar_ticks(range, 100)) {
    widest = std::max(widest, text_extent(tick.text, titled ? 11 : 9));
  }
  return titled ? kBarWidth + 7 + widest + 21 : kPanelBarWidth + 6 + widest;
}

void draw_color_bar(Scene& scene, const PreparedMap& map, const ColorRange& range, bool titled,
                    double x, double y, double height) {
  constexpr int kSteps = 64;
  const double width = titled ? kBarWidth : kPanelBarWidth;
  for (int i = 0; i < kSteps; ++i) {
    const double step = height / kSteps;
    scene.rectangle(x, y + height - step * (i + 1), width, step + (i == 0 ? 0 : 0.5),
                    color_at(map.colors, (i + 0.5) / kSteps));
  }
  SceneItem& frame = scene.rectangle(x, y, width, height, kFrame);
  frame.stroke = -1;
  frame.attributes = " class=\"color-bar\"";
  const double size = titled ? 11 : 9;
  double widest = 0;
  double last = y + height + kLeastBetweenTicks;
  for (const Tick& tick : bar_ticks(range, height)) {
    const double at = y + height - std::clamp(range.share(tick.value), 0.0, 1.0) * height;
    if (last - at < kLeastBetweenTicks * size / 11) {
      continue;  // labels that would touch
    }
    last = at;
    scene.line({x + width, at, x + width + 3, at}, kFrame);
    scene.label(x + width + 5, at, tick.text, size, Anchor::start).attributes = " class=\"tick\"";
    widest = std::max(widest, text_extent(tick.text, size));
  }
  if (titled && !map.source->value_title.empty()) {
    SceneItem& title = scene.label(x + width + 7 + widest + 11, y + height / 2,
                                   map.source->value_title, 12, Anchor::middle);
    title.upward = true;
    title.attributes = " class=\"value-title\"";
  }
}

}  // namespace heed
