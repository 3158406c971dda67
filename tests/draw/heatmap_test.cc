#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <sstream>

#include "draw/fonts.h"
#include "heed/io.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "io/json.h"
#include "support/check.h"
#include "support/error.h"
#include "support/text.h"

namespace heed {
namespace {

using test::count;
using test::lines_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Heatmap four_by_four() {
  Heatmap map;
  map.title = "The cat sat down";
  map.row_labels = map.column_labels = {"The", "cat", "sat", "down"};
  map.panels.push_back({"", Tensor::from({0.7F, 0.1F, 0.1F, 0.1F, 0.2F, 0.5F, 0.2F, 0.1F, 0.05F,
                                          0.6F, 0.3F, 0.05F, 0.01F, 0.29F, 0.4F, 0.3F},
                                         {4, 4})});
  return map;
}

std::string without_codes(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

double luminance(const Color& color) {
  const auto linear = [](uint8_t value) {
    const double c = value / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}

TEST(Colors, RunEvenlyFromDarkToLight) {
  for (int i = 1; i <= 50; ++i) {
    EXPECT_GT(luminance(color_at(ColorMap::dusk, i / 50.0)),
              luminance(color_at(ColorMap::dusk, (i - 1) / 50.0)));
    EXPECT_LT(luminance(color_at(ColorMap::ink, i / 50.0)),
              luminance(color_at(ColorMap::ink, (i - 1) / 50.0)));
  }
  EXPECT_EQ(color_at(ColorMap::dusk, -3), color_at(ColorMap::dusk, 0));
  EXPECT_EQ(color_at(ColorMap::dusk, 7), color_at(ColorMap::dusk, 1));
}

TEST(Colors, TextIsReadableOnAll) {
  for (const ColorMap map : {ColorMap::dusk, ColorMap::ink, ColorMap::diverging}) {
    for (int i = 0; i <= 200; ++i) {
      const Color back = color_at(map, i / 200.0);
      const double a = luminance(back) + 0.05, b = luminance(readable_on(back)) + 0.05;
      EXPECT_GE(std::max(a, b) / std::min(a, b), 4.5);  // WCAG AA
    }
  }
}

TEST(HeatmapSvg, ShowsValuesLabelsAxesAndColorBar) {
  const std::string svg = to_svg(four_by_four());
  EXPECT_EQ(count(svg, "class=\"cell\""), 16);
  EXPECT_EQ(count(svg, "class=\"value\""), 16);
  EXPECT_EQ(count(svg, "class=\"row-label\""), 4);
  EXPECT_EQ(count(svg, "class=\"column-label\""), 4);
  EXPECT_NE(svg.find(">Key</text>"), std::string::npos);
  EXPECT_NE(svg.find(">Query</text>"), std::string::npos);
  EXPECT_GE(count(svg, "class=\"tick\""), 3);
  EXPECT_NE(svg.find("data-row=\"2\" data-column=\"1\" data-value=\"0.6\""), std::string::npos);
  EXPECT_NE(svg.find(">0.29</text>"), std::string::npos);
  EXPECT_NE(svg.find("Query sat → Key cat: 0.6000"), std::string::npos);
}

TEST(HeatmapSvg, ShowsMarkupInTokensAsText) {
  Heatmap map = four_by_four();
  map.row_labels[0] = "<script>";
  map.title = "a & \"b\"";
  const std::string svg = to_svg(map);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;"), std::string::npos);
  EXPECT_NE(svg.find("a &amp; &quot;b&quot;"), std::string::npos);
}

TEST(HeatmapSvg, TurnsLongLabels) {
  Heatmap map = four_by_four();
  EXPECT_EQ(to_svg(map).find("rotate(-90)\" dy=\"0.35em\" font-size=\"13\" fill=\"#202124\" "
                             "text-anchor=\"end\""),
            std::string::npos);
  map.column_labels[1] = "internationalisation";
  EXPECT_EQ(count(to_svg(map), "text-anchor=\"end\" class=\"column-label\""), 4);
}

TEST(HeatmapSvg, DrawsAGridOfHeads) {
  Heatmap map;
  for (int head = 0; head < 8; ++head) {
    map.panels.push_back({"Head " + std::to_string(head),
                          test::random_uniform({5, 5}, 0, 1, DType::f32, uint64_t(head) + 1)});
  }
  map.panels_across = 4;
  const std::string svg = to_svg(map);
  EXPECT_EQ(count(svg, "class=\"panel-title\""), 8);
  EXPECT_EQ(count(svg, "class=\"cell\""), 8 * 25);
  EXPECT_EQ(count(svg, "class=\"row-label\""), 2 * 5);     // the left panels
  EXPECT_EQ(count(svg, "class=\"column-label\""), 4 * 5);  // the lowest panels
}

TEST(HeatmapSvg, FillsItsGrid) {
  // Column labels stand below the lowest panel of each column, so they count the columns.
  for (const auto& [panels, columns] : {std::pair{2, 2}, {4, 2}, {8, 4}, {12, 4}, {16, 4}}) {
    Heatmap map;
    for (int head = 0; head < panels; ++head) {
      map.panels.push_back({"", test::random_uniform({2, 2}, 0, 1)});
    }
    const std::string svg = to_svg(map);
    EXPECT_EQ(count(svg, "class=\"column-label\""), 2 * columns) << panels;
    EXPECT_EQ(count(svg, "class=\"row-label\""), 2 * panels / columns) << panels;
  }
}

TEST(HeatmapSvg, DrawsLongMapsAsOneImageWithoutNumbers) {
  Heatmap map;
  map.panels.push_back({"", test::random_uniform({512, 512}, 0, 1)});
  const std::string svg = to_svg(map);
  EXPECT_EQ(count(svg, "class=\"cell\""), 0);
  EXPECT_EQ(count(svg, "class=\"value\""), 0);
  EXPECT_EQ(count(svg, "<image "), 1);
  EXPECT_NE(svg.find("data-rows=\"512\""), std::string::npos);
}

TEST(HeatmapSvg, ShowsMaskedScores) {
  Heatmap map;
  map.panels.push_back({"", Tensor::from({1.0F, -kInfinity, -2.0F, 0.5F}, {2, 2})});
  const std::string svg = to_svg(map);
  EXPECT_NE(svg.find(">−∞</text>"), std::string::npos);
  EXPECT_NE(svg.find("fill=\"#cdcfd3\""), std::string::npos);
  EXPECT_NE(svg.find(">-2.00</text>"), std::string::npos);
}

TEST(HeatmapPng, HasTheColorsOfTheCells) {
  HEED_DRAWS_TEXT;
  Heatmap map = four_by_four();
  map.scale = ColorScale::linear;
  map.low = 0.0;
  map.high = 1.0;
  const Tensor picture = decode_image(to_png(map), "map.png", 3);  // [3, H, W]
  const int64_t height = picture.size(1), width = picture.size(2);
  const auto* data = picture.data<uint8_t>();
  const Color wanted = color_at(ColorMap::ink, 0.7F);
  int64_t found = 0;
  for (int64_t i = 0; i < height * width; ++i) {
    found +=
        Color{data[i], data[height * width + i], data[2 * height * width + i]} == wanted ? 1 : 0;
  }
  EXPECT_GT(found, 100 * 100 * 3 / 4);  // a cell is 112 pixels wide; its number takes some
  EXPECT_LE(found, 112 * 112 + 300);
}

TEST(HeatmapTerminal, LinesUpForKorean) {
  Heatmap map = four_by_four();
  map.row_labels = map.column_labels = {"나는", "학교에", "e\u0301t\u00e9", "👍🏽"};
  for (const TerminalColor color :
       {TerminalColor::none, TerminalColor::palette, TerminalColor::full}) {
    const std::vector<std::string> lines =
        lines_of(without_codes(to_terminal(map, {.color = color})));
    ASSERT_EQ(lines.size(), 2U + 1 + 4 + 1 + 1);  // titles, labels, rows, a gap, the legend
    for (size_t i = 3; i < 7; ++i) {
      EXPECT_EQ(display_width(lines[i]), display_width(lines[2])) << lines[i];
    }
    EXPECT_NE(lines[3].find("0.70"), std::string::npos);
  }
}

TEST(HeatmapTerminal, HasNoCodesWithoutColorAndShadesInstead) {
  Heatmap map;
  map.panels.push_back({"", Tensor::from({0.0F, 1.0F, 0.5F, 0.25F}, {2, 2})});
  map.scale = ColorScale::linear;
  const std::string plain = to_terminal(map, {.values = false});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(plain.find("0   ██"), std::string::npos);
  EXPECT_NE(plain.find("1 ▒▒░░"), std::string::npos);
  const std::string ascii = to_terminal(map, {.ascii = true, .values = false});
  EXPECT_NE(ascii.find("0   @@"), std::string::npos);
}

TEST(HeatmapTerminal, KeepsWithinTheTerminalAndKeepsSpikes) {
  Heatmap map;
  const Tensor values = Tensor::zeros({3000, 3000});
  values.data<float>()[1234 * 3000 + 77] = 1.0F;
  map.panels.push_back({"", values});
  const std::string text = to_terminal(map, {.width = 60, .height = 20});
  for (const std::string& line : lines_of(text)) {
    EXPECT_LE(display_width(line), 60) << line;
  }
  EXPECT_GE(count(text, "█"), 2);  // the spike, and the end of the legend
}

TEST(HeatmapTerminal, DoesNotPassOnControlCodes) {
  Heatmap map = four_by_four();
  map.row_labels[0] = "\x1b[2J";
  map.title = "\x1b]0;x\x07";
  EXPECT_EQ(to_terminal(map).find('\x1b'), std::string::npos);
}

TEST(HeatmapJson, HoldsTheValues) {
  const Json json = Json::parse(to_json(four_by_four()), "map.json");
  EXPECT_EQ(json.at("row_labels")[3].string(), "down");
  EXPECT_EQ(json.at("maps")[0].at("values")[2][1].number(), 0.6);
}

TEST(Heatmap, StacksPanelsIntoATensor) {
  Heatmap map = four_by_four();
  EXPECT_EQ(to_tensor(map).shape(), Shape({4, 4}));
  map.panels.push_back(map.panels[0]);
  const Tensor both = to_tensor(map);
  EXPECT_EQ(both.shape(), Shape({2, 4, 4}));
  EXPECT_EQ(both.data<float>()[16 + 9], 0.6F);
}

TEST(Heatmap, PoolsByTheLargest) {
  const Tensor values = Tensor::zeros({10, 7});
  values.data<float>()[9 * 7 + 6] = 2.0F;
  const Tensor small = max_pool_map(values, 3, 2);
  EXPECT_EQ(small.shape(), Shape({3, 2}));
  EXPECT_EQ(small.data<float>()[5], 2.0F);
  EXPECT_EQ(small.data<float>()[0], 0.0F);
  EXPECT_TRUE(max_pool_map(values, 100, 100).shares_storage_with(values));
}

TEST(Heatmap, RefusesWhatDoesNotFit) {
  Heatmap map = four_by_four();
  map.row_labels.pop_back();
  EXPECT_ERROR(to_svg(map), "to_svg: 3 row labels for 4 rows");
  EXPECT_ERROR(to_svg(Heatmap{}), "to_svg: the heat map has no panel");
  map = four_by_four();
  map.panels.push_back({"", Tensor::zeros({3, 4})});
  EXPECT_ERROR(to_terminal(map), "to_terminal: panels of different shapes: [4, 4] and [3, 4]");
  map.panels = {{"", Tensor::zeros({0, 4})}};
  map.row_labels.clear();
  EXPECT_ERROR(to_png(map), "to_png: the heat map is empty: [0, 4]");
  map = four_by_four();
  EXPECT_ERROR(to_png(map, {.png_scale = 1e9}),
               "to_png: a scale of 1000000000 pixels per unit is not in (0, 16]");
}

}  // namespace
}  // namespace heed
