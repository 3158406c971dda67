#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "heed/picture.h"
#include "support/data.h"

// Pictures against committed ones (tests/golden/pictures), element by element: the same elements in
// the same order, with the same texts and attributes; numbers to a hundredth.
// HEED_UPDATE_PICTURES=1 writes them anew: look at them before they are committed.

namespace heed {
namespace {

struct Element {
  std::string tag;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  ///< up to the next tag
};

std::vector<Element> elements(const std::string& svg) {
  static const std::regex tag("<(/?[a-z]+)([^>]*?)/?>([^<]*)");
  static const std::regex attribute("([a-zA-Z-]+)=\"([^\"]*)\"");
  std::vector<Element> list;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), tag); it != std::sregex_iterator();
       ++it) {
    Element element{(*it)[1], {}, (*it)[3]};
    const std::string inside = (*it)[2];
    for (auto a = std::sregex_iterator(inside.begin(), inside.end(), attribute);
         a != std::sregex_iterator(); ++a) {
      element.attributes.emplace_back((*a)[1], (*a)[2]);
    }
    list.push_back(std::move(element));
  }
  return list;
}

/// Texts are equal but for numbers, which may differ by a hundredth.
bool alike(const std::string& a, const std::string& b) {
  static const std::regex number("-?[0-9]{1,9}\\.?[0-9]{0,9}");
  if (std::regex_replace(a, number, "#") != std::regex_replace(b, number, "#")) {
    return false;
  }
  auto x = std::sregex_iterator(a.begin(), a.end(), number);
  auto y = std::sregex_iterator(b.begin(), b.end(), number);
  for (; x != std::sregex_iterator() && y != std::sregex_iterator(); ++x, ++y) {
    if (std::abs(std::stod(x->str()) - std::stod(y->str())) > 0.01) {
      return false;
    }
  }
  return x == y;
}

void compare(const std::string& name, const std::string& svg) {
  const std::filesystem::path file = test::golden("pictures/" + name + ".svg");
  if (std::getenv("HEED_UPDATE_PICTURES") != nullptr) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << svg;
    return;
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::vector<Element> expected = elements(text.str()), actual = elements(svg);
  ASSERT_GT(expected.size(), 10U) << file;
  ASSERT_EQ(actual.size(), expected.size()) << file;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i].tag, expected[i].tag) << "element " << i << " of " << file;
    ASSERT_TRUE(alike(actual[i].text, expected[i].text))
        << "element " << i << ": '" << actual[i].text << "', not '" << expected[i].text << "'";
    ASSERT_EQ(actual[i].attributes.size(), expected[i].attributes.size()) << "element " << i;
    for (size_t a = 0; a < expected[i].attributes.size(); ++a) {
      ASSERT_EQ(actual[i].attributes[a].first, expected[i].attributes[a].first);
      if (expected[i].attributes[a].first != "href") {  // an embedded PNG's bytes are zlib's
        ASSERT_TRUE(alike(actual[i].attributes[a].second, expected[i].attributes[a].second))
            << "element " << i << ' ' << expected[i].attributes[a].first << ": "
            << actual[i].attributes[a].second << ", not " << expected[i].attributes[a].second;
      }
    }
  }
}

Tensor ramp(int64_t rows, int64_t columns, float first, float step) {
  Tensor values = Tensor::empty({rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) {
    values.data<float>()[i] = first + step * static_cast<float>(i % 11);
  }
  return values;
}

TEST(PictureReferences, FourByFourMap) {
  Heatmap map;
  map.title = "고양이 & the mat";
  map.panels.push_back({"", ramp(4, 4, 0.0F, 0.09F)});
  map.row_labels = map.column_labels = {"The", "cat", "앉았다", "<mat>"};
  compare("map", to_svg(map));
}

TEST(PictureReferences, GridOfEightHeads) {
  Heatmap map;
  map.title = "Eight heads";
  for (int head = 0; head < 8; ++head) {
    map.panels.push_back(
        {"Head " + std::to_string(head), ramp(3, 3, 0.01F * static_cast<float>(head), 0.05F)});
  }
  map.panels_across = 4;
  compare("grid", to_svg(map));
}

TEST(PictureReferences, MaskedAndSignedScores) {
  Heatmap map;
  Tensor scores = ramp(3, 3, -0.4F, 0.11F);
  scores.data<float>()[1] = -INFINITY;
  map.panels.push_back({"", scores});
  compare("masked", to_svg(map));
}

TEST(PictureReferences, LongMap) {
  Heatmap map;
  map.title = "Long";
  map.panels.push_back({"", ramp(100, 100, 0.0F, 0.1F)});
  map.row_extent = map.column_extent = 8192;
  compare("long", to_svg(map));
}

TEST(PictureReferences, PlotAndPatches) {
  LinePlot plot;
  plot.title = "Loss";
  plot.x_title = "Step";
  plot.y_title = "Loss";
  plot.series = {{"train", {1, 2, 3, 4}, {2.0, 1.5, NAN, 0.5}}, {"valid", {1, 4}, {2.2, 0.9}}};
  plot.markers = true;
  compare("plot", to_svg(plot));
  PatchPicture picture;
  picture.title = "Patches";
  picture.image = Tensor::full({8, 8, 3}, 128, DType::u8);
  picture.panels = {{"red", ramp(2, 2, 0.1F, 0.2F)}, {"circle", ramp(2, 2, 0.4F, 0.1F)}};
  compare("patches", to_svg(picture));
}

// The comparison itself notices what it should.
TEST(PictureReferences, SeeDifferences) {
  EXPECT_TRUE(alike("x=1.001 label", "x=1.002 label"));
  EXPECT_FALSE(alike("x=1.00 label", "x=1.02 label"));
  EXPECT_FALSE(alike("a 1", "b 1"));
  EXPECT_EQ(elements("<svg a=\"1\"><text>x</text></svg>").size(), 4U);
}

}  // namespace
}  // namespace heed
