#include <gtest/gtest.h>

#include <cstring>

#include "base/base64.h"
#include "heed/error.h"
#include "heed/picture.h"
#include "io/json.h"
#include "support/check.h"

namespace heed {
namespace {

AttentionPage page_of(const Tensor& values) {
  AttentionPage page;
  page.title = "<script>alert(1)</script>";
  PageGroup group;
  group.kind = "self";
  for (int64_t i = 0; i < values.size(0); ++i) {
    group.row_labels.push_back("</script>" + std::to_string(i));
  }
  group.column_labels = group.row_labels;
  PageMap map;
  map.layer = 3;
  map.head = 7;
  map.values = values;
  group.maps.push_back(map);
  page.groups.push_back(group);
  return page;
}

Json data_of(const std::string& html) {
  const std::string opening = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = html.find(opening) + opening.size();
  return Json::parse(html.substr(begin, html.find("</script>", begin) - begin), "page");
}

TEST(Page, HoldsTheValuesToTheBit) {
  const Tensor values = test::random_uniform({6, 6}, 0, 1);
  const Json data = data_of(to_html(page_of(values)));
  const Json map = data.at("groups")[0].at("maps")[0];
  EXPECT_EQ(map.at("layer").integer(), 3);
  EXPECT_EQ(map.at("head").integer(), 7);
  const std::string bytes = decode_base64(map.at("values").string(), "page");
  ASSERT_EQ(bytes.size(), 36 * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes.data(), values.raw(), bytes.size()), 0);
}

TEST(Page, WeightsHaveTheSameColorsInEveryMap) {
  const auto map_of = [](double value) {
    return data_of(to_html(page_of(Tensor::full({2, 2}, value)))).at("groups")[0].at("maps")[0];
  };
  EXPECT_EQ(map_of(0.25).at("high").number(), 1.0);
  EXPECT_EQ(map_of(0.25).at("gamma").number(), 0.5);
  EXPECT_EQ(map_of(3.0).at("high").number(), 3.0);  // no weights: by their range
  EXPECT_EQ(map_of(3.0).at("gamma").number(), 1.0);
}

TEST(Page, ShowsMarkupAsTextAndNeedsNothingElse) {
  const std::string html = to_html(page_of(Tensor::full({2, 2}, 0.5)));
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(data_of(html).at("groups")[0].at("rows")[1].string(), "</script>1");
  EXPECT_EQ(html.find("http://"), std::string::npos);
  EXPECT_EQ(html.find("https://"), std::string::npos);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(Page, CarriesTheStrongestKeysOfPooledMaps) {
  AttentionPage page = page_of(Tensor::full({4, 4}, 0.25));
  PageGroup& group = page.groups[0];
  group.row_labels.assign(8, "t");
  group.column_labels.assign(8, "t");
  group.maps[0].top_index = Tensor::zeros({8, 2}, DType::i64);
  group.maps[0].top_weight = Tensor::full({8, 2}, 0.5);
  const Json map = data_of(to_html(page)).at("groups")[0].at("maps")[0];
  EXPECT_EQ(map.at("k").integer(), 2);
  EXPECT_EQ(decode_base64(map.at("topIndex").string(), "page").size(), 8U * 2 * 4);
  group.maps[0].top_weight = Tensor::full({8, 3}, 0.5);
  EXPECT_THROW(to_html(page), Error);
}

TEST(Page, EmbedsTheImageOfPatches) {
  AttentionPage page = page_of(Tensor::full({5, 5}, 0.2));
  PageGroup& group = page.groups[0];
  group.image = Tensor::full({8, 8, 3}, 128, DType::u8);
  group.patch_rows = group.patch_columns = 2;
  group.first_patch = 1;
  const Json data = data_of(to_html(page)).at("groups")[0];
  EXPECT_TRUE(data.at("image").string().starts_with("data:image/png;base64,iVBOR"));
  group.first_patch = 2;
  EXPECT_THROW(to_html(page), Error);
}

TEST(Page, RefusesNothingToShow) { EXPECT_THROW(to_html(AttentionPage{}), Error); }

}  // namespace
}  // namespace heed
