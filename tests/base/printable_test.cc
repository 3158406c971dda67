#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace heed {
namespace {

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\x0ab\\x09c\\x0dd");
  EXPECT_EQ(printable(std::string_view("nul\0byte", 8)), "nul\\x00byte");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\u{009b}");  // CSI as one character
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\u{202e}b");  // right-to-left override
  EXPECT_EQ(printable("\xe2\x80\xa8\xe2\x81\xa6"), "\\u{2028}\\u{2066}");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("caf\xc3"), "caf\\xc3");
}

TEST(Printable, LeavesTextAloneAndIsIdempotent) {
  for (const std::string_view text : {"plain", "한국어 문장", "emoji 🙂", "C:\\folder", "é"}) {
    EXPECT_EQ(printable(text), text);
  }
  const std::string once = printable("\x1b\n\xff");
  EXPECT_EQ(printable(once), once);
}

TEST(Printable, TruncatesAtTheLimit) {
  EXPECT_EQ(printable(std::string(100, 'a'), 10), std::string(10, 'a') + "…");
  EXPECT_EQ(quote("ab\n"), "'ab\\x0a'");
  EXPECT_EQ(quote(std::string(200, 'x')).size(), 80 + 2 + std::string_view("…").size());
}

TEST(Printable, LinesKeepTheirEnds) {
  EXPECT_EQ(printable_lines("a\n\tb\x1b\r"), "a\n\tb\\x1b\\x0d");
}

}  // namespace
}  // namespace heed
