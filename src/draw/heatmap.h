#pragma once

#include <string>
#include <vector>

#include "heed/picture.h"

namespace heed {

/// How the values of one panel become colours.
struct ColorRange {
  double low = 0;
  double high = 1;
  ColorScale scale = ColorScale::linear;

  /// Where a value lies on the colour map, 0 … 1; values outside are not clamped.
  double share(double value) const;
  /// The value at a share: the inverse.
  double value_at(double share) const;
};

/// A checked heat map: every panel f32 and contiguous, with the range and colours settled.
struct PreparedMap {
  const Heatmap* source;
  std::vector<Tensor> values;                 ///< each [rows, columns]
  std::vector<ColorRange> ranges;             ///< of each panel
  std::vector<std::vector<float>> row_highs;  ///< per panel, where each row has a range of its own
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_extent = 0;  ///< tokens the rows stand for
  int64_t column_extent = 0;
  ColorMap colors = ColorMap::ink;
  bool panel_bars = false;  ///< a colour bar per panel

  double share(size_t panel, int64_t row, float value) const;
  Color color(size_t panel, int64_t row, float value) const;
  float at(size_t panel, int64_t row, int64_t column) const {
    return values[panel].data<float>()[row * columns + column];
  }
  /// Label of a row or column, else its position as a number.
  std::string row_label(int64_t row) const;
  std::string column_label(int64_t column) const;
};

/// Throws Error naming `op` where the parts of the map do not fit together.
PreparedMap prepare(const Heatmap& map, const char* op);

/// The map with its panels pooled to at most that many cells.
PreparedMap pooled(const PreparedMap& map, int64_t max_rows, int64_t max_columns);

/// Panels side by side: as many as asked for, else (`wanted` = 0) so that the grid is about twice
/// as wide as high and has few empty places: 2 × 2, 4 × 2, 4 × 3, 4 × 4.
int64_t panels_per_row(int64_t panels, int64_t wanted);

/// A value for a cell: "0.42", "-12.5", "1e-05", "−∞", "NaN".
std::string short_number(float value);

inline constexpr Color kMaskedColor{205, 207, 211};

}  // namespace heed
