#include "draw/text_width.h"

#include <gtest/gtest.h>

#include "heed/picture.h"

namespace heed {
namespace {

TEST(TextWidth, CountsTerminalColumns) {
  EXPECT_EQ(display_width("cat"), 3);
  EXPECT_EQ(display_width("나는"), 4);
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);             // a letter and its accent
  EXPECT_EQ(display_width("\u1112\u1161\u11ab"), 2);  // one syllable from three letters
  EXPECT_EQ(display_width("👍"), 2);
  EXPECT_EQ(display_width("👍🏽"), 2);            // with a skin tone
  EXPECT_EQ(display_width("👨‍👩‍👧"), 2);  // joined
  EXPECT_EQ(display_width(""), 0);
}

TEST(TextWidth, MakesControlCodesAndBadBytesVisible) {
  EXPECT_EQ(visible_text("a\x1b[31mb"), "a␛[31mb");
  EXPECT_EQ(visible_text("a\nb"), "a↵b");
  EXPECT_EQ(visible_text("\x7f"), "␡");
  EXPECT_EQ(visible_text("\xff"), "\uFFFD");
  EXPECT_EQ(visible_text("a\u202Eb"), "ab");  // would turn the text around
}

TEST(TextWidth, ShortensBetweenCharacters) {
  EXPECT_EQ(shorten("attention", 9), "attention");
  EXPECT_EQ(shorten("attention", 5), "atte…");
  EXPECT_EQ(shorten("학교에서", 5), "학교…");
  EXPECT_EQ(shorten("학교에서", 4), "학…");
  EXPECT_EQ(shorten("학교", 0), "");
}

TEST(TextWidth, FitsExactly) {
  for (const char* text : {"cat", "나는", "학교에서", "👍🏽", "", "e\u0301"}) {
    for (int width = 1; width < 10; ++width) {
      for (const Align align : {Align::left, Align::center, Align::right}) {
        EXPECT_EQ(display_width(fit(text, width, align)), width) << text;
      }
    }
  }
  EXPECT_EQ(fit("ab", 5, Align::right), "   ab");
  EXPECT_EQ(fit("ab", 4, Align::center), " ab ");
}

TEST(TextWidth, EscapesMarkup) {
  EXPECT_EQ(escape_markup("<b a=\"1\">&'"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
}

}  // namespace
}  // namespace heed
