#include <gtest/gtest.h>

#include <limits>

#include "draw/fonts.h"
#include "draw/ticks.h"
#include "heed/io.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "support/error.h"
#include "support/text.h"

namespace heed {
namespace {

using test::count;

LinePlot loss_plot() {
  LinePlot plot;
  plot.title = "Loss";
  plot.x_title = "step";
  plot.y_title = "cross-entropy";
  plot.series = {{"train", {0, 1, 2, 3}, {4, 2, 1, 0.5}}, {"held out", {0, 1, 2, 3}, {4, 3, 2, 1}}};
  return plot;
}

TEST(Ticks, AreRound) {
  std::vector<std::string> texts;
  for (const Tick& tick : linear_ticks(0, 1, 5)) {
    texts.push_back(tick.text);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  texts.clear();
  for (const Tick& tick : log_ticks(1, 1e6)) {
    texts.push_back(tick.text);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"1", "10", "100", "1000", "10k", "100k", "1M"}));
}

TEST(Plot, DrawsEverySeriesWithALegend) {
  const std::string svg = to_svg(loss_plot());
  EXPECT_EQ(count(svg, "class=\"series\""), 2);
  EXPECT_EQ(count(svg, "class=\"legend\""), 2);
  EXPECT_EQ(count(svg, "class=\"axis-title\""), 2);
  EXPECT_NE(svg.find(">held out</text>"), std::string::npos);
}

TEST(Plot, LeavesGapsAndSkipsWhatALogScaleCannotShow) {
  LinePlot plot = loss_plot();
  plot.series.resize(1);
  plot.series[0].y[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(count(to_svg(plot), "class=\"series\""), 2);  // one line before, one after
  EXPECT_EQ(count(to_svg(plot), "class=\"legend\""), 0);
  plot.log_y = true;
  plot.series[0].y = {10, -1, 100, 1000};
  EXPECT_EQ(count(to_svg(plot), "class=\"series\""), 2);
  EXPECT_EQ(to_svg(plot).find("nan"), std::string::npos);
}

TEST(Plot, WorksWithoutData) {
  HEED_DRAWS_TEXT;
  EXPECT_NE(to_svg(LinePlot{}).find("</svg>"), std::string::npos);
  const Tensor picture = decode_image(to_png(loss_plot(), 1.0), "plot.png");
  EXPECT_EQ(picture.size(1), 420);
  EXPECT_EQ(picture.size(2), 720);
}

TEST(Plot, RefusesUnequalLengths) {
  LinePlot plot = loss_plot();
  plot.series[0].x.pop_back();
  EXPECT_ERROR(to_svg(plot), "plot: series 'train' has 3 x and 4 y values");
}

}  // namespace
}  // namespace heed
