#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heed {

struct StrokePoint {
  double x, y;
};
using Stroke = std::vector<StrokePoint>;  ///< a polyline; a single point is a dot

/// A character as pen strokes in units of the em: x from the pen's place, y down from the baseline.
struct StrokeGlyph {
  double advance = 0;
  std::vector<Stroke> strokes;
};

/// The strokes of a text, pen moves applied. Latin letters with accents, ASCII and Korean are
/// drawn.
struct StrokeText {
  double advance = 0;
  std::vector<Stroke> strokes;
  bool complete = true;  ///< false where a character has no glyph
};
StrokeText stroke_text(std::string_view text);

/// Adds the strokes of `shape` on a grid of `unit_x` by `unit_y` at (x, y). A shape is a list of
/// polylines between spaces-and-commas: "00 40 44,02 42" with a digit for x and one for y a point;
/// a leading "~" makes the points the control polygon of a smooth curve, closed where its ends
/// meet.
void add_shape(std::vector<Stroke>& strokes, std::string_view shape, double x, double y,
               double unit_x, double unit_y);

/// A precomposed syllable (U+AC00 …) or a single letter (U+3131 …); empty for anything else.
StrokeGlyph hangul_glyph(int32_t code);

}  // namespace heed
