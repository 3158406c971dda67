#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "draw/text_width.h"
#include "heed/picture.h"

namespace heed {
namespace {

constexpr std::array<const char*, 6> kMarks{"·", "o", "x", "+", "*", "#"};
constexpr int kNumbers = 9;  // columns of the numbers beside the axis

struct Ends {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool log = false;

  bool takes(double value) const { return std::isfinite(value) && (!log || value > 0); }
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double share(double value) const {
    if (!(high > low)) {
      return 0.5;
    }
    return log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

std::string number(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

std::string to_terminal(const LinePlot& plot, int width, int height) {
  check(width >= 24 && height >= 2, "to_terminal",
        "a terminal of {} columns and {} rows is too small", width, height);
  Ends x, y;
  x.log = plot.log_x;
  y.log = plot.log_y;
  for (const Series& series : plot.series) {
    check(series.x.size() == series.y.size(), "plot", "series '{}' has {} x and {} y values",
          series.name, series.x.size(), series.y.size());
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (x.takes(series.x[i]) && y.takes(series.y[i])) {
        x.include(series.x[i]);
        y.include(series.y[i]);
      }
    }
  }
  if (!(x.low <= x.high)) {
    return {};
  }
  const int columns = width - kNumbers - 2;
  std::vector<std::vector<const char*>> cells(
      static_cast<size_t>(height), std::vector<const char*>(static_cast<size_t>(columns), " "));
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (x.takes(series.x[i]) && y.takes(series.y[i])) {
        const auto column = std::lround(x.share(series.x[i]) * (columns - 1));
        const auto row = std::lround((1 - y.share(series.y[i])) * (height - 1));
        cells[static_cast<size_t>(row)][static_cast<size_t>(column)] = kMarks[s % kMarks.size()];
      }
    }
  }
  std::string out;
  std::string legend = plot.title.empty() ? plot.y_title : plot.title;
  for (size_t s = 0; s < plot.series.size(); ++s) {
    legend += fmt::format("  {} {}", kMarks[s % kMarks.size()], plot.series[s].name);
  }
  out += shorten(legend, width) + "\n";
  for (int r = 0; r < height; ++r) {
    const bool ends = r == 0 || r + 1 == height;
    out += fit(ends ? number(r == 0 ? y.high : y.low) : "", kNumbers, Align::right) + " │";
    std::string line;
    for (const char* cell : cells[static_cast<size_t>(r)]) {
      line += cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  out += std::string(kNumbers + 1, ' ') + "└";
  for (int c = 0; c < columns; ++c) {
    out += "─";
  }
  const std::string first = number(x.low), last = number(x.high);
  const int between = columns - static_cast<int>(first.size() + last.size());
  out += "\n" + std::string(kNumbers + 2, ' ') + first +
         fit(plot.x_title, std::max(between, 0), Align::center) + last + "\n";
  return out;
}

}  // namespace heed
