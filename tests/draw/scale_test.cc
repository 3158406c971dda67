// Colour scales, text in PNG, colour bars and the space that pictures take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "draw/fonts.h"
#include "draw/heatmap.h"
#include "draw/scene.h"
#include "heed/io.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "support/error.h"

namespace heed {
namespace {

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

Heatmap map_of(const std::vector<float>& values, int64_t rows) {
  Heatmap map;
  map.panels.push_back(
      {"", Tensor::from(values, {rows, static_cast<int64_t>(values.size()) / rows})});
  return map;
}

int lightness(const Color& color) { return (color.red + color.green + color.blue) / 3; }

Color cell(const Heatmap& map, size_t panel, int64_t row, int64_t column) {
  const PreparedMap prepared = prepare(map, "test");
  return prepared.color(panel, row, prepared.at(panel, row, column));
}

TEST(ColorScale, UniformAttentionLooksPaleAndEven) {
  const Heatmap uniform = map_of(std::vector<float>(64, 1.0F / 8), 8);
  const Heatmap peak = map_of({1, 0, 0, 1}, 2);
  EXPECT_GT(lightness(cell(uniform, 0, 3, 3)), 160);
  EXPECT_LT(lightness(cell(uniform, 0, 3, 3)), 250);  // but not white
  EXPECT_LT(lightness(cell(peak, 0, 0, 0)), 100);
  EXPECT_EQ(cell(uniform, 0, 0, 0), cell(uniform, 0, 7, 7));
}

TEST(ColorScale, LowRowsOfACausalMapCanBeTold) {
  std::vector<float> values(256, 0.0F);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j <= i; ++j) {
      values[static_cast<size_t>(i * 16 + j)] = 1.0F / static_cast<float>(i + 1);
    }
  }
  const Heatmap map = map_of(values, 16);
  const int last = lightness(cell(map, 0, 15, 0));
  EXPECT_LT(last, lightness(cell(map, 0, 0, 15)) - 25);  // 1/16 differs from nothing
  Heatmap linear = map;
  linear.scale = ColorScale::linear;
  EXPECT_LT(last, lightness(cell(linear, 0, 15, 0)) - 10);  // and shows more than in proportion
}

TEST(ColorScale, TheSameWeightHasTheSameColorInEveryPicture) {
  EXPECT_EQ(cell(map_of({0.3F, 0.7F}, 1), 0, 0, 0), cell(map_of({0.3F, 0.1F}, 1), 0, 0, 0));
  Heatmap one = map_of({0.3F, 0.7F}, 1), other = map_of({0.3F, 0.1F}, 1);
  one.scale = other.scale = ColorScale::linear;
  EXPECT_NE(cell(one, 0, 0, 0), cell(other, 0, 0, 0));
}

TEST(ColorScale, RowsAndLogarithms) {
  Heatmap map = map_of({0.5F, 0.25F, 0.02F, 0.01F}, 2);
  map.scale = ColorScale::row;
  EXPECT_EQ(cell(map, 0, 0, 0), cell(map, 0, 1, 0));
  EXPECT_EQ(cell(map, 0, 0, 1), cell(map, 0, 1, 1));
  map.scale = ColorScale::log;
  const ColorRange range = prepare(map, "test").ranges[0];
  EXPECT_DOUBLE_EQ(range.high, 1.0);
  EXPECT_NEAR(range.share(0.01), 0.5, 1e-9);  // halfway of four decades
  EXPECT_NEAR(range.value_at(0.5), 0.01, 1e-9);
  EXPECT_EQ(range.share(0.0), 0.0);
}

TEST(ColorScale, ValuesThatAreNoWeightsKeepTheirRange) {
  EXPECT_DOUBLE_EQ(prepare(map_of({0.5F, 3.0F}, 1), "test").ranges[0].high, 3.0);
  const PreparedMap scores = prepare(map_of({-2.0F, 1.0F}, 1), "test");
  EXPECT_DOUBLE_EQ(scores.ranges[0].low, -2.0);
  EXPECT_EQ(scores.colors, ColorMap::diverging);
}

TEST(ColorScale, NamesAreKnownOrRefused) {
  EXPECT_EQ(color_map_from_name("blues"), ColorMap::ink);
  EXPECT_EQ(color_scale_from_name("log"), ColorScale::log);
  EXPECT_ERROR(color_map_from_name("jet"),
               "colors: 'jet' is not one of blues, greens, reds, greys, dusk, diverging");
  EXPECT_ERROR(color_scale_from_name("cube"),
               "scale: 'cube' is not one of absolute, linear, row, log");
}

TEST(ColorMaps, GoFromWhiteToDarkInEvenSteps) {
  for (const char* name : {"blues", "greens", "reds", "greys"}) {
    const ColorMap map = color_map_from_name(name);
    EXPECT_EQ(color_at(map, 0.0), (Color{255, 255, 255})) << name;
    for (int i = 0; i < 10; ++i) {
      EXPECT_LT(lightness(color_at(map, (i + 1) / 10.0)), lightness(color_at(map, i / 10.0)));
    }
  }
}

TEST(HeatmapSvg, GridsHaveAColorBarPerPanel) {
  Heatmap map;
  for (int head = 0; head < 8; ++head) {
    map.panels.push_back({"Head", Tensor::full({5, 5}, 0.2F)});
  }
  EXPECT_EQ(count(to_svg(map), "class=\"color-bar\""), 8);
  map.panel_bars = false;
  EXPECT_EQ(count(to_svg(map), "class=\"color-bar\""), 1);
  map.panels.resize(1);
  map.panel_bars.reset();
  EXPECT_EQ(count(to_svg(map), "class=\"color-bar\""), 1);
}

TEST(HeatmapSvg, EightHeadsLieInTwoRowsOfFour) {
  Heatmap map;
  for (int head = 0; head < 8; ++head) {
    map.panels.push_back({fmt::format("Head {}", head), Tensor::full({5, 5}, 0.2F)});
  }
  std::set<std::string> lines;
  const std::string svg = to_svg(map);
  const std::regex title("<text x=\"[0-9.]+\" y=\"([0-9.]+)\"[^>]*class=\"panel-title\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), title), end; it != end; ++it) {
    lines.insert((*it)[1]);
  }
  EXPECT_EQ(lines.size(), 2U) << svg.substr(0, 2000);
  // In a terminal that has room for five across, too.
  const std::string text = to_terminal(map, {.width = 190});
  EXPECT_EQ(
      count(text.substr(text.find("Head 0"), text.find("Head 4") - text.find("Head 0")), "Head"),
      4);
  EXPECT_NE(text.find('\n', text.find("Head 3")), std::string::npos);
  EXPECT_LT(text.find('\n', text.find("Head 3")), text.find("Head 4"));
}

TEST(HeatmapPng, HasNoEmptySpaceAroundTheMap) {
  HEED_DRAWS_TEXT;
  Heatmap map = map_of(std::vector<float>(8, 0.1F), 1);
  map.title = "The animal did not cross the street because it was too tired to go on walking";
  const Tensor picture = decode_image(to_png(map, {.png_scale = 1.0}), "map.png", 3);
  const int64_t height = picture.size(1), width = picture.size(2);
  const auto* data = picture.data<uint8_t>();
  int64_t last_row = 0, last_column = 0;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      if (data[y * width + x] < 250) {
        last_row = std::max(last_row, y);
        last_column = std::max(last_column, x);
      }
    }
  }
  EXPECT_LT(height - last_row, 32);
  EXPECT_LT(width - last_column, 40);
}

TEST(HeatmapPng, DrawsTextOfOtherScripts) {
  HEED_DRAWS_TEXT;
  // Each label puts ink into the picture: none is left out or replaced by its number.
  const auto ink = [](const std::string& label) {
    Scene scene;
    scene.width = 200;
    scene.height = 40;
    scene.label(100, 20, label, 16, SceneItem::Anchor::middle);
    const Tensor pixels = scene_to_pixels(scene, 2.0);
    int64_t dark = 0;
    for (int64_t i = 0; i < pixels.numel(); ++i) {
      dark += pixels.data<uint8_t>()[i] < 128 ? 1 : 0;
    }
    return dark;
  };
  EXPECT_EQ(ink(""), 0);
  for (const char* label : {"Ärger", "나는 학교에 갔다", "漢字", "Привет"}) {
    EXPECT_GT(ink(label), 200) << label;
  }
  EXPECT_NE(ink("가"), ink("각"));
}

TEST(HeatmapPng, ALineAfterATextDoesNotStartAtIt) {
  HEED_DRAWS_TEXT;
  Scene scene;
  scene.width = scene.height = 100;
  scene.label(10, 10, "text", 8, SceneItem::Anchor::start);
  scene.line({50, 90, 90, 90}, Color{0, 0, 0});
  const Tensor pixels = scene_to_pixels(scene, 1.0);
  int64_t dark = 0;  // between the two
  for (int64_t y = 30; y < 85; ++y) {
    for (int64_t x = 0; x < 100; ++x) {
      dark += pixels.data<uint8_t>()[3 * (y * 100 + x)] < 250 ? 1 : 0;
    }
  }
  EXPECT_EQ(dark, 0);
}

TEST(HeatmapTerminal, KoreanLabelsAreApart) {
  Heatmap map = map_of(std::vector<float>(16, 0.25F), 4);
  map.column_labels = map.row_labels = {"나는", "어제", "학교에", "갔다"};
  const std::string text = to_terminal(map);
  EXPECT_NE(text.find("나는"), std::string::npos);
  EXPECT_EQ(text.find("나는어제"), std::string::npos);
  EXPECT_EQ(text.find("어제학교에"), std::string::npos);
  const std::string downward = to_terminal(map, {.values = false});
  EXPECT_EQ(downward.find("나어"), std::string::npos);  // side by side, they would read as a word
}

TEST(LinePlot, IsDrawnInTheTerminal) {
  LinePlot plot;
  plot.title = "Loss";
  plot.x_title = "Step";
  plot.series.push_back({"training", {0, 50, 100}, {4.0, 2.0, 1.0}});
  plot.series.push_back({"validation", {0, 100}, {4.5, 3.5}});
  const std::string text = to_terminal(plot, 60, 8);
  EXPECT_NE(text.find("training"), std::string::npos);
  EXPECT_NE(text.find("4.5"), std::string::npos);
  EXPECT_NE(text.find("100"), std::string::npos);
  EXPECT_EQ(count(text.substr(text.find('\n')), "o"), 2);  // the points, below the legend
  EXPECT_EQ(count(text, "\n"), 8 + 3);
  EXPECT_EQ(to_terminal(LinePlot{}), "");
  EXPECT_ERROR(to_terminal(plot, 5, 1),
               "to_terminal: a terminal of 5 columns and 1 rows is too small");
}

}  // namespace
}  // namespace heed
