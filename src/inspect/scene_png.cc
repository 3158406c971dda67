#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "inspect/scene.h"
#include "inspect/stroke_font.h"

namespace heed {
namespace {

/// An RGB picture that is drawn on with soft edges.
class Canvas {
 public:
  Canvas(int64_t width, int64_t height) : width_(width), height_(height) {
    pixels_ = Tensor::full({height, width, 3}, 255, DType::u8);
    data_ = pixels_.data<uint8_t>();
  }
  const Tensor& pixels() const { return pixels_; }
  int64_t hidden_size() const { return width_; }
  int64_t height() const { return height_; }

  void blend(int64_t x, int64_t y, const Color& color, double coverage) {
    if (x < 0 || y < 0 || x >= width_ || y >= height_ || coverage <= 0) {
      return;
    }
    uint8_t* pixel = data_ + 3 * (y * width_ + x);
    const uint8_t paint[3] = {color.red, color.green, color.blue};
    for (int i = 0; i < 3; ++i) {
      pixel[i] = static_cast<uint8_t>(
          std::lround(pixel[i] + (paint[i] - pixel[i]) * std::min(coverage, 1.0)));
    }
  }

  /// [x0, x1) × [y0, y1) in pixels.
  void fill(double x0, double y0, double x1, double y1, const Color& color) {
    for (auto y = static_cast<int64_t>(y0); y < static_cast<int64_t>(y1); ++y) {
      for (auto x = static_cast<int64_t>(x0); x < static_cast<int64_t>(x1); ++x) {
        blend(x, y, color, 1);
      }
    }
  }

  /// A pen of the given width drawn along all strokes at once, so that crossings do not darken.
  void pen(const std::vector<Stroke>& strokes, double width, const Color& color) {
    const double reach = width / 2 + 1;
    double left = 1e30, top = 1e30, right = -1e30, bottom = -1e30;
    for (const Stroke& stroke : strokes) {
      for (const StrokePoint& point : stroke) {
        left = std::min(left, point.x - reach);
        right = std::max(right, point.x + reach);
        top = std::min(top, point.y - reach);
        bottom = std::max(bottom, point.y + reach);
      }
    }
    const auto x0 = static_cast<int64_t>(std::clamp<double>(left, 0, static_cast<double>(width_)));
    const auto x1 =
        static_cast<int64_t>(std::clamp<double>(right + 1, 0, static_cast<double>(width_)));
    const auto y0 = static_cast<int64_t>(std::clamp<double>(top, 0, static_cast<double>(height_)));
    const auto y1 =
        static_cast<int64_t>(std::clamp<double>(bottom + 1, 0, static_cast<double>(height_)));
    if (x0 >= x1 || y0 >= y1) {
      return;
    }
    std::vector<float> nearest(static_cast<size_t>((x1 - x0) * (y1 - y0)), 1e30F);
    for (const Stroke& stroke : strokes) {
      for (size_t i = 0; i + 1 < std::max<size_t>(stroke.size(), 2); ++i) {
        measure(nearest, x0, y0, x1, y1, stroke[i], stroke[std::min(i + 1, stroke.size() - 1)],
                reach);
      }
    }
    for (int64_t y = y0; y < y1; ++y) {
      for (int64_t x = x0; x < x1; ++x) {
        const float distance = nearest[static_cast<size_t>((y - y0) * (x1 - x0) + x - x0)];
        blend(x, y, color, std::min(width / 2 + 0.5 - distance, std::min(width, 1.0)));
      }
    }
  }

 private:
  static void measure(std::vector<float>& nearest, int64_t x0, int64_t y0, int64_t x1, int64_t y1,
                      const StrokePoint& a, const StrokePoint& b, double reach) {
    const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    const auto first_x = std::max(x0, static_cast<int64_t>(std::floor(std::min(a.x, b.x) - reach)));
    const auto last_x = std::min(x1 - 1, static_cast<int64_t>(std::max(a.x, b.x) + reach));
    const auto first_y = std::max(y0, static_cast<int64_t>(std::floor(std::min(a.y, b.y) - reach)));
    const auto last_y = std::min(y1 - 1, static_cast<int64_t>(std::max(a.y, b.y) + reach));
    for (int64_t y = first_y; y <= last_y; ++y) {
      for (int64_t x = first_x; x <= last_x; ++x) {
        const double px = static_cast<double>(x) + 0.5 - a.x,
                     py = static_cast<double>(y) + 0.5 - a.y;
        const double t = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.0, 1.0) : 0.0;
        float& best = nearest[static_cast<size_t>((y - y0) * (x1 - x0) + x - x0)];
        best = std::min(best, static_cast<float>(std::hypot(px - t * dx, py - t * dy)));
      }
    }
  }

  int64_t width_, height_;
  Tensor pixels_;
  uint8_t* data_;
};

void draw_rectangle(Canvas& canvas, const SceneItem& item, double scale) {
  const double x0 = item.x * scale, y0 = item.y * scale;
  const double x1 = (item.x + item.width) * scale, y1 = (item.y + item.height) * scale;
  if (item.stroke >= 0) {
    // Whole pixels, so that no seam shows between neighbours.
    canvas.fill(std::round(x0), std::round(y0), std::round(x1), std::round(y1), item.color);
    return;
  }
  canvas.pen({{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}, {x0, y0}}}, -item.stroke * scale,
             item.color);
}

void draw_text(Canvas& canvas, const SceneItem& item, double scale) {
  StrokeText text = stroke_text(item.text);
  if (!text.complete && !item.fallback.empty()) {
    text = stroke_text(item.fallback);
  }
  const double em = item.size * scale;
  const double start = item.anchor == SceneItem::Anchor::start    ? 0.0
                       : item.anchor == SceneItem::Anchor::middle ? -text.advance / 2
                                                                  : -text.advance;
  for (Stroke& stroke : text.strokes) {
    for (StrokePoint& point : stroke) {
      const double x = (point.x + start) * em, y = (point.y + 0.35) * em;
      point = item.upward ? StrokePoint{item.x * scale + y, item.y * scale - x}
                          : StrokePoint{item.x * scale + x, item.y * scale + y};
    }
  }
  canvas.pen(text.strokes, std::max(em * (item.bold ? 0.115 : 0.075), 0.9), item.color);
}

/// Cut into dashes of 6 with gaps of 4 units.
std::vector<Stroke> dashes(const Stroke& line, double scale) {
  std::vector<Stroke> parts;
  double along = 0;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    const double dx = line[i + 1].x - line[i].x, dy = line[i + 1].y - line[i].y;
    const double length = std::hypot(dx, dy);
    const double step = scale;
    for (double at = 0; at < length; at += step, along += step) {
      if (std::fmod(along, 10 * scale) < 6 * scale) {
        const double end = std::min(at + step, length);
        parts.push_back({{line[i].x + dx * at / length, line[i].y + dy * at / length},
                         {line[i].x + dx * end / length, line[i].y + dy * end / length}});
      }
    }
  }
  return parts;
}

void draw_line(Canvas& canvas, const SceneItem& item, double scale) {
  Stroke line;
  for (size_t i = 0; i + 1 < item.points.size(); i += 2) {
    line.push_back({item.points[i] * scale, item.points[i + 1] * scale});
  }
  canvas.pen(item.dashed ? dashes(line, scale) : std::vector<Stroke>{line}, item.stroke * scale,
             item.color);
}

void draw_image(Canvas& canvas, const SceneItem& item, double scale) {
  const int64_t rows = item.pixels.size(0), columns = item.pixels.size(1);
  const auto* pixels = item.pixels.data<uint8_t>();
  const auto left = static_cast<int64_t>(std::lround(item.x * scale));
  const auto top = static_cast<int64_t>(std::lround(item.y * scale));
  const auto width = static_cast<int64_t>(std::lround(item.width * scale));
  const auto height = static_cast<int64_t>(std::lround(item.height * scale));
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* from = pixels + 3 * (y * rows / height * columns + x * columns / width);
      canvas.blend(left + x, top + y, {from[0], from[1], from[2]}, 1);
    }
  }
}

}  // namespace

Tensor scene_to_pixels(const Scene& scene, double scale) {
  check(scale > 0 && scale <= 16, "to_png", "a scale of {} pixels a unit is not in (0, 16]", scale);
  const double width = std::ceil(scene.width * scale), height = std::ceil(scene.height * scale);
  check(width * height <= 1e8, "to_png", "a picture of {} x {} pixels is too large", width, height);
  Canvas canvas(static_cast<int64_t>(width), static_cast<int64_t>(height));
  for (const SceneItem& item : scene.items) {
    switch (item.kind) {
      case SceneItem::Kind::rectangle:
        draw_rectangle(canvas, item, scale);
        break;
      case SceneItem::Kind::text:
        draw_text(canvas, item, scale);
        break;
      case SceneItem::Kind::line:
        draw_line(canvas, item, scale);
        break;
      case SceneItem::Kind::image:
        draw_image(canvas, item, scale);
        break;
    }
  }
  return canvas.pixels();
}

}  // namespace heed
