#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "heed/runtime.h"
#include "io/json.h"
#include "support/error.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/postprocessor.h"
#include "text/pretokenizer.h"

namespace heed::text {
namespace {

std::string normalized(const std::string& json, std::string_view text) {
  const auto normalizer = make_normalizer(Json::parse(json, "test"));
  AlignedText aligned(text, 0, true);
  normalizer->apply(aligned);
  return std::string(aligned.text());
}

TEST(Normalizer, Forms) {
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "e\u0301 \u1112\u1161\u11ab x"), "é 한 x");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "é 한"), "e\u0301 \u1112\u1161\u11ab");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "ﬁ ① Ⅳ"), "fi 1 IV");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "\u3149\u314f \u314e\u314f \uff76\uff9e"),
            "\uc9dc \ud558 \u30ac");
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", "ﬁ é"), "fi e\u0301");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "a\u0323\u0301 a\u0301\u0323"),
            "a\u0323\u0301 a\u0323\u0301");
}

TEST(Normalizer, Others) {
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "ÀİΣ"), "ài\u0307σ");
  EXPECT_EQ(normalized(R"({"type":"StripAccents"})", "e\u0301x"), "ex");
  EXPECT_EQ(normalized(R"({"type":"Strip"})", " \u3000a b\n"), "a b");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":false})", " a "), " a");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", "a"), "_a");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", ""), "");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"aa"},"content":"b"})", "aaa"),
            "ba");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"_"})", "a   b "),
            "a_b ");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":""},"content":"b"})", "aa"), "aa");
  EXPECT_EQ(normalized(R"({"type":"BertNormalizer","lowercase":true})", "Á\t中\x01x\u200bÿ"),
            "a  中 xy");
  EXPECT_EQ(normalized(R"({"type":"BertNormalizer","lowercase":false})", "Áb"), "Áb");
  EXPECT_EQ(normalized(R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},
                          {"type":"Lowercase"}]})",
                       "ÉA"),
            "ea");
}

TEST(Normalizer, KeepsTrackOfBytes) {
  const auto normalizer =
      make_normalizer(Json::parse(R"({"type":"BertNormalizer","lowercase":true})", "test"));
  const std::string text = "É 한 中";
  AlignedText aligned(text, 100, true);
  normalizer->apply(aligned);
  ASSERT_EQ(aligned.text(), "e \u1112\u1161\u11ab  中 ");
  EXPECT_EQ(aligned.source(0, 1), (TextSpan{100, 102}));
  EXPECT_EQ(aligned.source(2, 5), (TextSpan{103, 106}));   // the first Jamo is the whole syllable
  EXPECT_EQ(aligned.source(8, 11), (TextSpan{103, 106}));  // and so is the last
  EXPECT_EQ(aligned.source(13, 16), (TextSpan{107, 110}));
}

std::vector<std::string> pieces(const std::string& json, std::string_view text) {
  const auto pretokenizer = make_pretokenizer(Json::parse(json, "test"), nullptr);
  AlignedText aligned(text, 0, true);
  std::vector<Piece> found{{0, text.size()}};
  pretokenizer->apply(aligned, found);
  std::vector<std::string> words;
  for (const Piece& piece : found) {
    words.emplace_back(aligned.text().substr(piece.begin, piece.end - piece.begin));
  }
  return words;
}

using Words = std::vector<std::string>;

/// Decomposed, each character's parts stand for its own bytes, whatever stands beside it.
TEST(Normalizer, CharactersKeepTheirPlaces) {
  const std::string text = "한\u1161나\u0301";  // a syllable, a vowel; a syllable, an accent
  AlignedText aligned(text, 0, true);
  make_normalizer(Json::parse(R"({"type":"NFD"})", "test"))->apply(aligned);
  EXPECT_EQ(aligned.text(), "\u1112\u1161\u11ab\u1161\u1102\u1161\u0301");
  const auto source = [&](size_t at) {
    const TextSpan span = aligned.source(3 * at, 3 * at + (at == 6 ? 2 : 3));
    return std::pair(span.begin, span.end);
  };
  EXPECT_EQ(source(2), (std::pair<int64_t, int64_t>(0, 3)));
  EXPECT_EQ(source(3), (std::pair<int64_t, int64_t>(3, 6)));
  EXPECT_EQ(source(5), (std::pair<int64_t, int64_t>(6, 9)));
  EXPECT_EQ(source(6), (std::pair<int64_t, int64_t>(9, 11)));
}

TEST(PreTokenizer, Splits) {
  const auto split = [](const std::string& behavior) {
    return R"({"type":"Split","pattern":{"String":"-"},"invert":false,"behavior":")" + behavior +
           "\"}";
  };
  EXPECT_EQ(pieces(split("Removed"), "a--b-c"), (Words{"a", "b", "c"}));
  EXPECT_EQ(pieces(split("Isolated"), "a--b"), (Words{"a", "-", "-", "b"}));
  EXPECT_EQ(pieces(split("MergedWithPrevious"), "a--b"), (Words{"a-", "-", "b"}));
  EXPECT_EQ(pieces(split("MergedWithNext"), "a--b"), (Words{"a", "-", "-b"}));
  EXPECT_EQ(pieces(split("Contiguous"), "a--b"), (Words{"a", "--", "b"}));
}

/// What Oniguruma finds, for patterns that PCRE2 reads in another way.
TEST(PreTokenizer, PatternsMeanWhatOnigurumaMeans) {
  const auto found = [](const std::string& pattern, std::string_view text) {
    const nlohmann::json step = {{"type", "Split"},
                                 {"pattern", {{"Regex", pattern}}},
                                 {"behavior", "Removed"},
                                 {"invert", true}};
    return pieces(step.dump(), std::string(text));
  };
  // BLOOM's own: a class in a class.
  EXPECT_EQ(found(R"( ?[^(\s|[.,!?…。，、।۔،])]+)", "Hi there, a|b 中文。x"),
            (Words{"Hi", " there", " a", "b", " 中文", "x"}));
  EXPECT_EQ(found("[a-c[x-z]]+", "abxd[z]"), (Words{"abx", "z"}));
  EXPECT_EQ(found("[^a-c[x-z]]+", "abxd[z]"), (Words{"d[", "]"}));
  EXPECT_EQ(found("[a-z&&[^aeiou]]+", "hello"), (Words{"h", "ll"}));
  EXPECT_EQ(found("[^a-z&&[^aeiou]]+", "he1o"), (Words{"e1o"}));
  // Latin-1's numbers are words outside of a class only.
  EXPECT_EQ(found(R"(\w+)", "a½b"), (Words{"a½b"}));
  EXPECT_EQ(found(R"([\w]+)", "a½b"), (Words{"a", "b"}));
  EXPECT_EQ(found(R"([^\w\s]+)", "?½! a"), (Words{"?½!"}));
  EXPECT_EQ(found(R"([\W]+)", "a e\u0301① b"), (Words{" ", "① "}));
  EXPECT_EQ(found(R"([\S]+)", "a\u180eb c"), (Words{"a\u180eb", "c"}));
  EXPECT_EQ(found(R"(\b.)", "①Ⅷ a"), (Words{"Ⅷ", " ", "a"}));
  EXPECT_EQ(found(R"(\h+)", "xa0 ff"), (Words{"a0", "ff"}));
  EXPECT_EQ(found(R"(\p{Han}+)", "漢字、。"), (Words{"漢字"}));
  EXPECT_EQ(found(R"([[:alnum:]]+)", "a½Ⅷ"), (Words{"a", "Ⅷ"}));
  EXPECT_EQ(found(R"(\u00e9)", "eé"), (Words{"é"}));
  EXPECT_EQ(found("^a", "aa\na"), (Words{"a", "a"}));
  EXPECT_ERROR(found("[a", "a"), "test: pattern '[a' does not compile: a class has no end");
}

TEST(PreTokenizer, Others) {
  EXPECT_EQ(pieces(R"({"type":"BertPreTokenizer"})", " Hey, you$ 안녕! "),
            (Words{"Hey", ",", "you", "$", "안녕", "!"}));
  EXPECT_EQ(pieces(R"({"type":"Whitespace"})", "Hey, you_2!! e\u0301"),
            (Words{"Hey", ",", "you_2", "!!", "e\u0301"}));
  EXPECT_EQ(
      pieces(R"({"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Removed"})", "a½\u200d ㄱ_"),
      (Words{"\u200d "}));
  EXPECT_EQ(pieces(R"({"type":"Whitespace"})", "x\u200dy ½"), (Words{"x\u200dy", "½"}));
  EXPECT_EQ(pieces(R"({"type":"WhitespaceSplit"})", " a,b\u3000c "), (Words{"a,b", "c"}));
  EXPECT_EQ(pieces(R"({"type":"Digits","individual_digits":true})", "a12b"),
            (Words{"a", "1", "2", "b"}));
  EXPECT_EQ(pieces(R"({"type":"Digits","individual_digits":false})", "a12b"),
            (Words{"a", "12", "b"}));
  EXPECT_EQ(pieces(R"({"type":"Punctuation"})", "a?!b"), (Words{"a", "?", "!", "b"}));
  EXPECT_EQ(pieces(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always"})", "a  b"),
            (Words{"▁a", "▁", "▁b"}));
  EXPECT_EQ(pieces(R"({"type":"Metaspace","prepend_scheme":"never","split":false})", "a b"),
            (Words{"a▁b"}));
  EXPECT_EQ(pieces(R"({"type":"CharDelimiterSplit","delimiter":"|"})", "a||b"), (Words{"a", "b"}));
  EXPECT_EQ(pieces(R"({"type":"ByteLevel","add_prefix_space":true})", "a é"), (Words{"Ġa", "ĠÃ©"}));
}

std::string decoded(const std::string& json, std::vector<std::string> tokens) {
  make_decoder(Json::parse(json, "test"))->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    text += token;
  }
  return text;
}

TEST(Decoder, All) {
  EXPECT_EQ(decoded(R"({"type":"ByteLevel"})", {"Ġa", "Ã", "©"}), " aé");
  EXPECT_EQ(decoded(R"({"type":"WordPiece","prefix":"##","cleanup":true})",
                    {"do", "##g", "is", ".", "don", "'", "##t"}),
            "dog is. don 't");
  EXPECT_EQ(
      decoded(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always"})", {"▁a", "▁b"}),
      "a b");
  EXPECT_EQ(decoded(R"({"type":"BPEDecoder","suffix":"</w>"})", {"a</w>", "b</w>"}), "a b");
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"a", "<0xEA>", "<0xB0>", "<0x80>", "<0xFF>"}),
            "a\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"<0xEA>", "<0xB0>", "<0x80>", "b", "<0xFF>"}),
            "가b\uFFFD");
  EXPECT_EQ(decoded(R"({"type":"Strip","content":" ","start":1,"stop":0})", {"  a"}), " a");
  EXPECT_EQ(decoded(R"({"type":"Replace","pattern":{"String":"▁"},"content":" "})", {"▁a"}), " a");
}

TEST(PostProcessor, RobertaAndSequence) {
  const PostProcessor roberta = make_postprocessor(
      Json::parse(R"({"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",0]})", "test"));
  EXPECT_EQ(roberta.count_special(false), 2);
  EXPECT_EQ(roberta.count_special(true), 4);
  EXPECT_TRUE(roberta.trim_offsets);
  const PostProcessor sequence = make_postprocessor(Json::parse(
      R"({"type":"Sequence","processors":[{"type":"BertProcessing","sep":["x",2],"cls":["y",0]},
         {"type":"ByteLevel","trim_offsets":true}]})",
      "test"));
  EXPECT_EQ(sequence.count_special(false), 2);
  EXPECT_TRUE(sequence.trim_offsets);
}

TEST(Base64, BothWays) {
  for (const std::string text : {"", "a", "ab", "abc", "\xFF\x00\x7F!"}) {
    EXPECT_EQ(decode_base64(encode_base64(text), "test"), text);
  }
  EXPECT_EQ(encode_base64("abcd"), "YWJjZA==");
  EXPECT_ERROR(decode_base64("a*b", "test"), "test: base64 text has the character 0x2a");
}

}  // namespace
}  // namespace heed::text
