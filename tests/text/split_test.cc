#include <gtest/gtest.h>

#include <random>

#include "text/gpt2_split.h"
#include "text/regex.h"

namespace heed::text {
namespace {

std::vector<std::string> by_hand(std::string_view text) {
  std::vector<std::string> words;
  Gpt2Splitter splitter(text);
  for (std::string_view word; splitter.next(word);) {
    words.emplace_back(word);
  }
  return words;
}

std::vector<std::string> by_regex(std::string_view text) {
  static const Regex regex(kGpt2Pattern, "test");
  std::vector<Piece> matches;
  regex.find_all(text, matches);
  std::vector<std::string> words;
  for (const Piece& match : matches) {
    words.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  return words;
}

TEST(Gpt2Split, EqualsTheRegexOnDifficultText) {
  const std::vector<std::string> texts = {
      "",
      " ",
      "   ",
      "\n",
      "a  b   c\n\n d\t\te ",
      "I'm you're we've she'll he'd it's don't 'S 'x ' '' 'll've",
      "x'",
      " 's",
      "abc123def 456  789",
      "hello\r\n  world\r\n",
      "\u00a0\u3000 wide\u2003spaces\u2028end",
      "\u180e mongolian",
      "\u0085next",
      "가나다 안녕하세요, 세계! ㄱㄴㄷ \u1100\u1161\u11a8",
      "日本語テキスト １２３ Ⅳ ① ½ ²",
      "🦙🚀😶‍🌫️ e\u0301 A\u030a",
      "naïve café ΑΒΓ ǅ ß İ",
      "__init__(self): return {'a': 1}  # ok",
      std::string("nul\0in\0side", 11),
      "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0928\u092e\u0938\u094d\u0924\u0947",
      "𝒜𝓫 𐍈 \U0001F1F0\U0001F1F7 \U000E0001",
  };
  for (const std::string& text : texts) {
    EXPECT_EQ(by_hand(text), by_regex(text)) << text;
  }
}

TEST(Gpt2Split, EqualsTheRegexOnRandomText) {
  std::mt19937 random(7);
  const std::u32string common = U" \n\t\r'sdtmlrve019.,!가힣é\u00a0\u3000\u0301🦙½";
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 120; ++i) {
      char32_t code = common[random() % common.size()];
      if (random() % 4 == 0) {
        do {
          code = random() % 0x30000;
        } while (code >= 0xD800 && code <= 0xDFFF);
      }
      append_code(text, code);
    }
    // The two libraries may know different versions of Unicode: what is new to one is left out.
    static const Regex unassigned(R"(\p{Cn})", "test");
    std::string known;
    for (size_t i = 0; i < text.size();) {
      const CodePoint one = decode_one(text.data() + i, text.data() + text.size());
      std::vector<Piece> unknown;
      unassigned.find_all(text.substr(i, one.length), unknown);
      if (unknown.empty() && category(one.code) != UTF8PROC_CATEGORY_CN) {
        known.append(text, i, one.length);
      }
      i += one.length;
    }
    ASSERT_EQ(by_hand(known), by_regex(known)) << known;
  }
}

/// Characters of Unicode 15 and 16 (new emoji, letters, digits), whatever version PCRE2 knows; the
/// pieces are those of Hugging Face's tokenizers 0.23.
TEST(Regex, KnowsNewCharacters) {
  const auto pieces = [](const char* pattern, const std::string& text) {
    std::vector<Piece> found;
    Regex(pattern, "test").find_all(text, found);
    std::vector<std::string> words;
    for (const Piece& piece : found) {
      words.push_back(text.substr(piece.begin, piece.end - piece.begin));
    }
    return words;
  };
  using Words = std::vector<std::string>;
  const char* deepseek = R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s+)";
  EXPECT_EQ(pieces(deepseek, "a\U0001FAE8b !\U0001FAE8!"),
            (Words{"a", "\U0001FAE8", "b", " !\U0001FAE8!"}));
  EXPECT_EQ(pieces(deepseek, "a\U0002EBF0b"), (Words{"a\U0002EBF0b"}));
  EXPECT_EQ(pieces(R"(\w+|[^\w\s]+)", "x\uA7DCy 1"), (Words{"x\uA7DCy", "1"}));
  EXPECT_EQ(pieces(R"(\P{L}+)", "\u1C89!\u1C8A?"), (Words{"!", "?"}));
  EXPECT_EQ(pieces(R"([[:word:]]+)", "\U00011F04b!"), (Words{"\U00011F04b"}));
}

TEST(Gpt2Split, KeepsEveryByte) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      text += static_cast<char>(random() % 256);
    }
    std::string joined;
    for (const std::string& word : by_hand(text)) {
      EXPECT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Regex, LeavesInvalidBytesOutAndFindsTheRest) {
  const Regex words(R"(\w+)", "test");
  std::vector<Piece> matches;
  words.find_all("ab\xFF\xC3 cd", matches);
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(matches[0].end, 2u);
  EXPECT_EQ(matches[1].begin, 5u);
}

TEST(Regex, FindsAMatchFarFromTheStart) {
  const Regex mark("가나", "test");
  std::string text(1000, 'x');
  text += "가나";
  text += std::string(700, 'y') + "가나";
  std::vector<Piece> matches;
  mark.find_all(text, matches);
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(matches[0].begin, 1000u);
  EXPECT_EQ(matches[1].begin, 1706u);
}

}  // namespace
}  // namespace heed::text
