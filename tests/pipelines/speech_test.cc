#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/runtime.h"
#include "pipelines/language_tokens.h"
#include "pipelines/speech_decoding.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// 0 … 9 text, 10 end, 14 <|notimestamps|>, 15 … 24 timestamps.
SpeechTokens small_tokens() {
  SpeechTokens tokens;
  tokens.end = 10;
  tokens.no_timestamps = 14;
  tokens.max_initial_timestamp = 3;
  return tokens;
}

std::vector<int64_t> allowed_after(const std::vector<int64_t>& ids, std::vector<float> logits) {
  apply_timestamp_rules(logits, ids, small_tokens());
  std::vector<int64_t> allowed;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) {
      allowed.push_back(static_cast<int64_t>(i));
    }
  }
  return allowed;
}

std::vector<float> text_first() {
  std::vector<float> logits(25, 0.0f);
  logits[4] = 9.0f;
  return logits;
}

TEST(TimestampRules, AWindowBeginsWithAnEarlyTimestamp) {
  EXPECT_EQ(allowed_after({}, text_first()), (std::vector<int64_t>{15, 16, 17, 18}));
}

TEST(TimestampRules, TimesComeInPairsAndNeverGoBack) {
  // After the first time, text: no second time in front of it.
  const auto after_first = allowed_after({15}, text_first());
  EXPECT_EQ(after_first.back(), 13);
  EXPECT_EQ(after_first.front(), 0);
  // After text and a time: the same or a later time; together they are likelier than the end.
  EXPECT_EQ(allowed_after({15, 4, 20}, text_first()), (std::vector<int64_t>{20, 21, 22, 23, 24}));
  // After a pair, text again.
  EXPECT_EQ(allowed_after({15, 4, 20, 20}, text_first()).back(), 13);
  // Inside text, only later times.
  const auto inside = allowed_after({15, 4, 20, 20, 3}, text_first());
  EXPECT_EQ(inside[14], 21);
}

TEST(TimestampRules, TimesThatTogetherAreLikelierWin) {
  std::vector<float> logits(25, 0.0f);
  logits[4] = 1.0f;  // log of 9 or 10 equal times is above 2
  EXPECT_EQ(allowed_after({15, 4}, logits).front(), 16);
  EXPECT_EQ(allowed_after({15, 4}, text_first()).front(), 0);
}

/// Added tokens: languages as NLLB, mBART or M2M-100 name them.
Tokenizer tokenizer_with(const std::vector<std::string>& languages) {
  std::string added;
  std::string vocabulary = R"("<unk>":0,"a":1,"</s>":2)";
  int id = 3;
  for (const std::string& name : languages) {
    added +=
        (added.empty() ? "" : ",") + std::string(R"({"id":)") + std::to_string(id) +
        R"(,"content":")" + name +
        R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
    ++id;
  }
  return Tokenizer::from_json(
      R"({"version":"1.0","added_tokens":[)" + added +
      R"(],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
         "model":{"type":"WordLevel","unk_token":"<unk>","vocab":{)" +
      vocabulary + "}}}");
}

TEST(LanguageTokens, AreFoundByTheirNames) {
  const Tokenizer nllb = tokenizer_with({"eng_Latn", "kor_Hang"});
  EXPECT_EQ(language_token(nllb, "kor_Hang", "--target-lang"), 4);
  EXPECT_EQ(language_token(tokenizer_with({"__en__", "__ko__"}), "ko", "--target-lang"), 4);
  EXPECT_EQ(language_token(tokenizer_with({"en_XX", "ko_KR"}), "ko_KR", "--target-lang"), 4);
  try {
    language_token(nllb, "ko", "--target-lang");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("it has eng_Latn, kor_Hang"), std::string::npos)
        << error.what();
  }
  EXPECT_ERROR(language_token(tokenizer_with({}), "en", "--source-lang"),
               "--source-lang: this model's tokenizer has no language tokens; leave it out");
}

TEST(LanguageTokens, TakeThePlaceOfTheTokenizersOwn) {
  const Tokenizer nllb = tokenizer_with({"eng_Latn", "kor_Hang"});
  std::vector<TokenId> front{3, 1, 2};
  set_source_language(nllb, 4, front);
  EXPECT_EQ(front, (std::vector<TokenId>{4, 1, 2}));
  std::vector<TokenId> back{1, 2, 3};
  set_source_language(nllb, 4, back);
  EXPECT_EQ(back, (std::vector<TokenId>{1, 2, 4}));
  std::vector<TokenId> none{1, 2};
  set_source_language(nllb, 4, none);
  EXPECT_EQ(none, (std::vector<TokenId>{4, 1, 2}));
}

}  // namespace
}  // namespace heed::test
