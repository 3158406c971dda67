#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

// Pictures of numbers: heat maps and line plots, for a terminal, as SVG, as PNG and as one HTML
// file that needs no server. Labels may be any UTF-8: markup and control codes in them are shown as
// text.

namespace heed {

struct Color {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;
  bool operator==(const Color&) const = default;
};

/// Every map runs evenly in perceived lightness, so that it reads the same to the colour-blind and
/// on a grey printer.
enum class ColorMap {
  dusk,       ///< dark blue to light yellow
  ink,        ///< white to dark blue
  greens,     ///< white to dark green
  reds,       ///< white to dark red
  greys,      ///< white to black
  diverging,  ///< blue over white to orange, for signed values
};
/// "blues" (ink), "greens", "reds", "greys", "dusk" or "diverging"; throws kind usage for others.
HEED_API ColorMap color_map_from_name(std::string_view name);

/// How values become colours.
enum class ColorScale {
  /// From 0 to 1 with a gamma of 0.5 that keeps small weights visible: pictures can be compared.
  /// Where a value lies outside of 0 … 1: as `linear`.
  absolute,
  linear,  ///< from 0 to the largest value of all panels
  row,     ///< from 0 to the largest value of each row
  log,     ///< logarithmic, over four decades below the largest value (1 for weights)
};
/// "absolute", "linear", "row" or "log"; throws kind usage for others.
HEED_API ColorScale color_scale_from_name(std::string_view name);
/// The colour at `fraction` of the range, 0 … 1; values outside are clamped.
HEED_API Color color_at(ColorMap map, double fraction);
/// Black or white, whichever reads better on `background`.
HEED_API Color readable_on(const Color& background);

/// Columns that `text` takes in a terminal: two for Korean, Chinese and emoji, none for combining
/// marks.
HEED_API int display_width(std::string_view text);

struct HeatmapPanel {
  std::string title;
  Tensor values;  ///< [rows, columns]; -inf is drawn as masked
  /// What stands in the cells, row by row; empty: the values.
  std::vector<std::string> texts = {};
};

/// A heat map, or a grid of several with the same axes. Row 0 is at the top.
struct Heatmap {
  std::string title;
  std::vector<HeatmapPanel> panels;
  std::vector<std::string> row_labels;     ///< one per row, or none
  std::vector<std::string> column_labels;  ///< one per column, or none
  std::string row_title = "Query";
  std::string column_title = "Key";
  std::string value_title = "Weight";
  std::string language = "en";  ///< of what the picture says itself: "en" or "ko"
  ColorScale scale = ColorScale::absolute;
  /// Ends of the colour range; default: by `scale`, or both ways as far as the largest magnitude
  /// where a value is negative.
  std::optional<double> low;
  std::optional<double> high;
  std::optional<ColorMap> colors;  ///< default: diverging where a value is negative, else ink
  std::optional<bool> panel_bars;  ///< a colour bar per panel; default: in grids of up to 16
  int64_t panels_across = 0;       ///< 0: about twice as wide as high, with few empty places
  /// How many tokens the axes stand for where the values were pooled before; 0: as many as cells.
  int64_t row_extent = 0;
  int64_t column_extent = 0;
};

/// [rows, columns] -> at most [max_rows, max_columns], each cell the largest of those it covers, so
/// that a single spike survives.
HEED_API Tensor max_pool_map(const Tensor& values, int64_t max_rows, int64_t max_columns);

enum class TerminalColor { none, palette, full };  ///< no codes, 256 colours, 24 bits

struct TerminalOptions {
  TerminalColor color = TerminalColor::none;
  int width = 80;      ///< columns of the terminal
  int height = 48;     ///< rows a map may take
  bool ascii = false;  ///< shades of plain ASCII characters where there is no colour
  bool values = true;  ///< numbers in the cells where they fit
};
HEED_API std::string to_terminal(const Heatmap& map, const TerminalOptions& options = {});

struct PictureOptions {
  bool values = true;      ///< numbers in the cells where they fit
  double png_scale = 2.0;  ///< pixels per unit of the picture
};
HEED_API std::string to_svg(const Heatmap& map, const PictureOptions& options = {});
/// The same picture as the bytes of a PNG file. Text is drawn in the fonts that are installed.
HEED_API std::string to_png(const Heatmap& map, const PictureOptions& options = {});
/// {"title", "row_labels", "column_labels", …, "maps": [{"title", "values": [[…]]}]}
HEED_API std::string to_json(const Heatmap& map);
/// All panels as one f32 tensor: [rows, columns], or [panels, rows, columns] where there are
/// several.
HEED_API Tensor to_tensor(const Heatmap& map);

/// An image overlaid with the weights of its patches, once per panel.
struct PatchPicture {
  std::string title;
  Tensor image;  ///< u8 [H, W, 3]
  /// Each [patch rows, patch columns] over the whole image; the larger a weight, the more opaque.
  std::vector<HeatmapPanel> panels;
  int64_t panels_across = 0;    ///< 0: about twice as wide as high, with few empty places
  std::string language = "en";  ///< of what the picture says itself: "en" or "ko"
  ColorScale scale = ColorScale::absolute;  ///< `row`: each panel up to its own largest weight
};
HEED_API std::string to_svg(const PatchPicture& picture);
HEED_API std::string to_png(const PatchPicture& picture, double scale = 2.0);

struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;  ///< NaN leaves a gap
};

struct LinePlot {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<Series> series;
  bool log_x = false;
  bool log_y = false;
  bool markers = false;
  double width = 720;
  double height = 420;
};
/// The curves as text, `width` columns wide: one mark per series, the axes' ends as numbers.
HEED_API std::string to_terminal(const LinePlot& plot, int width = 72, int height = 12);
HEED_API std::string to_svg(const LinePlot& plot);
HEED_API std::string to_png(const LinePlot& plot, double scale = 2.0);

/// Writes a picture by the ending of `path`: .svg or .png.
HEED_API void save_picture(const std::filesystem::path& path, const Heatmap& map);
HEED_API void save_picture(const std::filesystem::path& path, const PatchPicture& picture);
HEED_API void save_picture(const std::filesystem::path& path, const LinePlot& plot);

}  // namespace heed
