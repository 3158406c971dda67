#pragma once

#include <string>
#include <vector>

#include "heed/picture.h"

namespace heed {

/// A checked heat map: every panel f32 and contiguous, with the range and colours settled.
struct PreparedMap {
  const Heatmap* source;
  std::vector<Tensor> values;  ///< each [rows, columns]
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_extent = 0;  ///< tokens the rows stand for
  int64_t column_extent = 0;
  double low = 0;
  double high = 1;
  ColorMap colors = ColorMap::dusk;

  double share(float value) const { return (value - low) / (high - low); }
  Color color(float value) const;
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

/// A value for a cell: "0.42", "-12.5", "1e-05", "−∞", "NaN".
std::string short_number(float value);

inline constexpr Color kMaskedColor{205, 207, 211};

}  // namespace heed
