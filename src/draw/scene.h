#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/picture.h"

namespace heed {

/// A drawing in units of one CSS pixel, made once and written as SVG or PNG. Things are drawn in
/// the order of `items`; y runs down.
struct SceneItem {
  enum class Kind { rectangle, text, line, image } kind = Kind::rectangle;
  double x = 0, y = 0;           ///< top left; of a text, the anchor on its middle line
  double width = 0, height = 0;  ///< of rectangle and image
  Color color;
  double stroke = 1;  ///< of a line; a rectangle with stroke < 0 is an outline
  bool dashed = false;
  double size = 12;  ///< of a text: its em
  enum class Anchor { start, middle, end } anchor = Anchor::start;
  bool bold = false;
  bool upward = false;         ///< text rotated by 90° to be read from below
  std::string text;            ///< shown; visible_text() already
  std::vector<double> points;  ///< of a line: x0, y0, x1, y1, …
  Tensor pixels;               ///< of an image: u8 [rows, columns, 3], drawn without smoothing
  std::string attributes;      ///< for SVG only: ' class="cell" data-value="0.5"'
  std::string tooltip;         ///< for SVG only
};

struct Scene {
  double width = 0;
  double height = 0;
  std::string title;        ///< for screen readers
  std::string description;  ///< for screen readers
  std::vector<SceneItem> items;

  SceneItem& rectangle(double x, double y, double wide, double tall, const Color& color);
  SceneItem& label(double x, double y, const std::string& text, double size,
                   SceneItem::Anchor anchor);
  SceneItem& line(std::vector<double> points, const Color& color, double stroke = 1);
  SceneItem& image(double x, double y, double wide, double tall, Tensor pixels);
};

/// About how wide a text is drawn in a sans-serif face, in the scene's units.
double text_extent(std::string_view text, double size);

std::string scene_to_svg(const Scene& scene);
/// u8 [H, W, 3], `scale` pixels a unit.
Tensor scene_to_pixels(const Scene& scene, double scale);

std::string hex(const Color& color);  ///< "#1f77b4"

}  // namespace heed
