#include "explore/explorer_page.h"

#include <gtest/gtest.h>

#include "io/gzip.h"

namespace heed {
namespace {

size_t count_of(const std::string& text, const std::string& piece) {
  size_t count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) {
    ++count;
  }
  return count;
}

TEST(ExplorerPage, IsOneSmallGzippedPage) {
  EXPECT_TRUE(is_gzip(explorer_page_gzip()));
  EXPECT_LE(explorer_page_gzip().size(), 250000U);
  EXPECT_TRUE(explorer_page().starts_with("<!doctype html>"));
}

TEST(ExplorerPage, HasOnePlaceForData) {
  EXPECT_EQ(count_of(explorer_page(), "<!--heed-data-->"), 1U);
}

TEST(ExplorerPage, AsksForNothingFromOutside) {
  for (const char* outside : {"src=\"http", "href=\"http", "src=\"//", "@import"}) {
    EXPECT_EQ(count_of(explorer_page(), outside), 0U) << outside;
  }
}

TEST(ExplorerPage, DataCannotEndItsElement) {
  const std::string page = explorer_page_with_data(R"({"text":"</script><b>"})");
  EXPECT_EQ(count_of(page, "<!--heed-data-->"), 0U);
  EXPECT_EQ(count_of(page, R"({"text":"\u003c/script>\u003cb>"})"), 1U);
  EXPECT_EQ(count_of(page, "</script>"), count_of(explorer_page(), "</script>") + 1);
}

}  // namespace
}  // namespace heed
