#include <cmath>
#include <memory>
#include <numbers>

#include "base/check.h"
#include "draw/load_pango.h"
#include "draw/scene.h"

namespace heed {
namespace {

// The first that is installed draws a character: a face for Latin text with Korean letters of the
// same weight, then whatever the system has.
constexpr const char* kFonts =
    "Noto Sans,Noto Sans CJK KR,NanumGothic,Nanum Gothic,DejaVu Sans,sans-serif";

struct Free {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* canvas) const { cairo_destroy(canvas); }
  void operator()(PangoLayout* layout) const { g_object_unref(layout); }
  void operator()(PangoFontDescription* font) const { pango_font_description_free(font); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

/// A white picture of whole pixels that scenes are drawn on, in pixels.
class Canvas {
 public:
  Canvas(int width, int height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
        cairo_(cairo_create(surface_.get())),
        layout_(pango_cairo_create_layout(cairo_.get())),
        font_(pango_font_description_from_string(kFonts)) {
    check(cairo_status(cairo_.get()) == CAIRO_STATUS_SUCCESS, "to_png",
          "a picture of {} x {} pixels cannot be made: {}", width, height,
          cairo_status_to_string(cairo_status(cairo_.get())));
    cairo_set_source_rgb(cairo_.get(), 1, 1, 1);
    cairo_paint(cairo_.get());
    cairo_set_line_join(cairo_.get(), CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cairo_.get(), CAIRO_LINE_CAP_ROUND);
  }

  void rectangle(const SceneItem& item, double scale) {
    begin(item.color);
    const double x0 = item.x * scale, y0 = item.y * scale;
    const double x1 = (item.x + item.width) * scale, y1 = (item.y + item.height) * scale;
    if (item.stroke >= 0) {
      // Whole pixels, so that no seam shows between neighbours.
      cairo_rectangle(cairo_.get(), std::round(x0), std::round(y0), std::round(x1) - std::round(x0),
                      std::round(y1) - std::round(y0));
      cairo_fill(cairo_.get());
      return;
    }
    cairo_rectangle(cairo_.get(), x0, y0, x1 - x0, y1 - y0);
    cairo_set_line_width(cairo_.get(), -item.stroke * scale);
    cairo_stroke(cairo_.get());
  }

  void line(const SceneItem& item, double scale) {
    begin(item.color);
    for (size_t i = 0; i + 1 < item.points.size(); i += 2) {
      cairo_line_to(cairo_.get(), item.points[i] * scale, item.points[i + 1] * scale);
    }
    const double dashes[] = {6 * scale, 4 * scale};
    cairo_set_dash(cairo_.get(), dashes, item.dashed ? 2 : 0, 0);
    cairo_set_line_width(cairo_.get(), item.stroke * scale);
    cairo_stroke(cairo_.get());
    cairo_set_dash(cairo_.get(), nullptr, 0, 0);
  }

  void text(const SceneItem& item, double scale) {
    begin(item.color);
    const double em = item.size * scale;
    pango_font_description_set_absolute_size(font_.get(), em * PANGO_SCALE);
    pango_font_description_set_weight(font_.get(),
                                      item.bold ? PANGO_WEIGHT_BOLD : PANGO_WEIGHT_NORMAL);
    pango_layout_set_font_description(layout_.get(), font_.get());
    pango_layout_set_text(layout_.get(), item.text.data(), static_cast<int>(item.text.size()));
    PangoRectangle box{};
    pango_layout_get_extents(layout_.get(), nullptr, &box);
    const double width = static_cast<double>(box.width) / PANGO_SCALE;
    const double start = item.anchor == SceneItem::Anchor::start    ? 0.0
                         : item.anchor == SceneItem::Anchor::middle ? -width / 2
                                                                    : -width;
    const double baseline =
        static_cast<double>(pango_layout_get_baseline(layout_.get())) / PANGO_SCALE;
    cairo_save(cairo_.get());
    cairo_translate(cairo_.get(), item.x * scale, item.y * scale);
    if (item.upward) {
      cairo_rotate(cairo_.get(), -std::numbers::pi / 2);
    }
    constexpr double kMiddle = 0.35;  // ems from the baseline up to the middle of a line
    cairo_move_to(cairo_.get(), start, kMiddle * em - baseline);
    pango_cairo_update_layout(cairo_.get(), layout_.get());
    pango_cairo_show_layout(cairo_.get(), layout_.get());
    cairo_restore(cairo_.get());
  }

  void image(const SceneItem& item, double scale) {
    const int64_t rows = item.pixels.size(0), columns = item.pixels.size(1);
    const auto* pixels = item.pixels.data<uint8_t>();
    const Owned<cairo_surface_t> source(cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, static_cast<int>(columns), static_cast<int>(rows)));
    cairo_surface_flush(source.get());
    for (int64_t y = 0; y < rows; ++y) {
      uint32_t* out = row_of(source.get(), y);
      for (int64_t x = 0; x < columns; ++x) {
        const uint8_t* from = pixels + 3 * (y * columns + x);
        out[x] = uint32_t{from[0]} << 16U | uint32_t{from[1]} << 8U | from[2];
      }
    }
    cairo_surface_mark_dirty(source.get());
    const double left = std::round(item.x * scale), top = std::round(item.y * scale);
    const double width = std::round(item.width * scale), height = std::round(item.height * scale);
    cairo_save(cairo_.get());
    cairo_rectangle(cairo_.get(), left, top, width, height);
    cairo_clip(cairo_.get());
    cairo_translate(cairo_.get(), left, top);
    cairo_scale(cairo_.get(), width / static_cast<double>(columns),
                height / static_cast<double>(rows));
    cairo_set_source_surface(cairo_.get(), source.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cairo_.get()), CAIRO_FILTER_NEAREST);
    cairo_pattern_set_extend(cairo_get_source(cairo_.get()), CAIRO_EXTEND_PAD);
    cairo_paint(cairo_.get());
    cairo_restore(cairo_.get());
  }

  /// u8 [height, width, 3]
  Tensor pixels() const {
    cairo_surface_flush(surface_.get());
    const int64_t width = cairo_image_surface_get_width(surface_.get());
    const int64_t height = cairo_image_surface_get_height(surface_.get());
    Tensor result = Tensor::empty({height, width, 3}, DType::u8);
    auto* out = result.data<uint8_t>();
    for (int64_t y = 0; y < height; ++y) {
      const uint32_t* row = row_of(surface_.get(), y);
      for (int64_t x = 0; x < width; ++x) {
        *out++ = static_cast<uint8_t>(row[x] >> 16U);
        *out++ = static_cast<uint8_t>(row[x] >> 8U);
        *out++ = static_cast<uint8_t>(row[x]);
      }
    }
    return result;
  }

 private:
  static uint32_t* row_of(cairo_surface_t* surface, int64_t row) {
    // Cairo aligns rows for 32-bit pixels.
    return reinterpret_cast<uint32_t*>(cairo_image_surface_get_data(surface) +
                                       row * cairo_image_surface_get_stride(surface));
  }

  /// A new path: a text leaves the pen where it ended.
  void begin(const Color& color) {
    cairo_new_path(cairo_.get());
    constexpr double kFull = 255;
    cairo_set_source_rgb(cairo_.get(), color.red / kFull, color.green / kFull, color.blue / kFull);
  }

  Owned<cairo_surface_t> surface_;
  Owned<cairo_t> cairo_;
  Owned<PangoLayout> layout_;
  Owned<PangoFontDescription> font_;
};

}  // namespace

Tensor scene_to_pixels(const Scene& scene, double scale) {
  check(scale > 0 && scale <= 16, "to_png", "a scale of {} pixels per unit is not in (0, 16]",
        scale);
  constexpr double kLongest = 32767;  // of a side; Cairo's limit
  const double width = std::ceil(scene.width * scale), height = std::ceil(scene.height * scale);
  check(width * height <= 1e8 && width <= kLongest && height <= kLongest, "to_png",
        "a picture of {} x {} pixels is too large", width, height);
  Canvas canvas(static_cast<int>(width), static_cast<int>(height));
  for (const SceneItem& item : scene.items) {
    switch (item.kind) {
      case SceneItem::Kind::rectangle:
        canvas.rectangle(item, scale);
        break;
      case SceneItem::Kind::text:
        canvas.text(item, scale);
        break;
      case SceneItem::Kind::line:
        canvas.line(item, scale);
        break;
      case SceneItem::Kind::image:
        canvas.image(item, scale);
        break;
    }
  }
  return canvas.pixels();
}

}  // namespace heed
