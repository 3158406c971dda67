#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "heed/picture.h"

namespace heed {
namespace {

/// A colour in OKLab, where equal steps look equal.
struct Lab {
  double lightness, a, b;
};

// Lightness rises (or falls) by the same step from anchor to anchor; hue turns from blue to yellow,
// the axis that all common kinds of colour blindness keep.
constexpr std::array<Lab, 6> kDusk{{{0.20, 0.005, -0.085},
                                    {0.35, -0.010, -0.110},
                                    {0.50, -0.045, -0.062},
                                    {0.65, -0.075, 0.010},
                                    {0.80, -0.062, 0.105},
                                    {0.95, -0.025, 0.135}}};
constexpr std::array<Lab, 5> kInk{{{1.00, 0.000, 0.000},
                                   {0.83, -0.022, -0.052},
                                   {0.66, -0.030, -0.095},
                                   {0.49, -0.022, -0.120},
                                   {0.32, -0.006, -0.105}}};
constexpr std::array<Lab, 5> kGreens{{{1.00, 0.000, 0.000},
                                      {0.83, -0.055, 0.030},
                                      {0.66, -0.090, 0.055},
                                      {0.49, -0.090, 0.060},
                                      {0.32, -0.065, 0.045}}};
constexpr std::array<Lab, 5> kReds{{{1.00, 0.000, 0.000},
                                    {0.83, 0.055, 0.035},
                                    {0.66, 0.120, 0.065},
                                    {0.49, 0.140, 0.070},
                                    {0.32, 0.100, 0.045}}};
constexpr std::array<Lab, 2> kGreys{{{1.00, 0.000, 0.000}, {0.20, 0.000, 0.000}}};
constexpr std::array<Lab, 5> kDiverging{{{0.42, -0.025, -0.125},
                                         {0.70, -0.035, -0.080},
                                         {0.98, 0.000, 0.000},
                                         {0.70, 0.070, 0.100},
                                         {0.42, 0.085, 0.085}}};

template <size_t N>
Lab between(const std::array<Lab, N>& anchors, double share) {
  const double place = share * (N - 1);
  const size_t first = std::min<size_t>(static_cast<size_t>(place), N - 2);
  const double t = place - static_cast<double>(first);
  const Lab& p = anchors[first];
  const Lab& q = anchors[first + 1];
  return {p.lightness + t * (q.lightness - p.lightness), p.a + t * (q.a - p.a),
          p.b + t * (q.b - p.b)};
}

uint8_t encode(double linear) {
  const double clipped = std::clamp(linear, 0.0, 1.0);
  const double encoded =
      clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * std::pow(clipped, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255 * encoded));
}

// OKLab -> cone responses -> linear sRGB (Ottosson's matrices).
Color to_srgb(const Lab& c) {
  const double l = std::pow(c.lightness + 0.3963377774 * c.a + 0.2158037573 * c.b, 3);
  const double m = std::pow(c.lightness - 0.1055613458 * c.a - 0.0638541728 * c.b, 3);
  const double s = std::pow(c.lightness - 0.0894841775 * c.a - 1.2914855480 * c.b, 3);
  return {encode(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          encode(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          encode(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

constexpr int kSteps = 1024;
using Table = std::array<Color, kSteps + 1>;

template <size_t N>
Table table_of(const std::array<Lab, N>& anchors) {
  Table table;
  for (int i = 0; i <= kSteps; ++i) {
    table[static_cast<size_t>(i)] = to_srgb(between(anchors, static_cast<double>(i) / kSteps));
  }
  return table;
}

double luminance(const Color& color) {
  const auto linear = [](uint8_t value) {
    const double c = value / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}

}  // namespace

Color color_at(ColorMap map, double share) {
  static const std::array<Table, 6> tables{table_of(kDusk), table_of(kInk),   table_of(kGreens),
                                           table_of(kReds), table_of(kGreys), table_of(kDiverging)};
  const double clipped = std::isnan(share) ? 0.0 : std::clamp(share, 0.0, 1.0);
  const Table& table = tables[static_cast<size_t>(map)];
  return table[static_cast<size_t>(std::lround(clipped * kSteps))];
}

ColorMap color_map_from_name(std::string_view name) {
  constexpr std::pair<std::string_view, ColorMap> kNames[] = {
      {"blues", ColorMap::ink},   {"greens", ColorMap::greens}, {"reds", ColorMap::reds},
      {"greys", ColorMap::greys}, {"dusk", ColorMap::dusk},     {"diverging", ColorMap::diverging}};
  for (const auto& [known, map] : kNames) {
    if (name == known) {
      return map;
    }
  }
  fail(ErrorKind::usage, "colors", "'{}' is not one of blues, greens, reds, greys, dusk, diverging",
       name);
}

ColorScale color_scale_from_name(std::string_view name) {
  constexpr std::pair<std::string_view, ColorScale> kNames[] = {{"absolute", ColorScale::absolute},
                                                                {"linear", ColorScale::linear},
                                                                {"row", ColorScale::row},
                                                                {"log", ColorScale::log}};
  for (const auto& [known, scale] : kNames) {
    if (name == known) {
      return scale;
    }
  }
  fail(ErrorKind::usage, "scale", "'{}' is not one of absolute, linear, row, log", name);
}

Color readable_on(const Color& background) {
  // Contrast with white is 1.05 / (L + 0.05), with black (L + 0.05) / 0.05; they meet at L = 0.179.
  return luminance(background) > 0.179 ? Color{0, 0, 0} : Color{255, 255, 255};
}

}  // namespace heed
