// Tokenizers come with a model and are not trusted: what their tokens, normalizers, decoders and
// templates may cost.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/text.h"
#include "support/error.h"
#include "text/aligned.h"
#include "text/legacy_files.h"
#include "text/spm.h"
#include "text/trie.h"
#include "text/vocabulary.h"
#include "wire.h"

namespace heed::test {
namespace {

using nlohmann::json;
using text::Trie;

/// Pieces, words or added tokens of `size` bytes in files of every kind that keeps them in a trie.
std::vector<std::string> documents_with(size_t size) {
  const std::string token(size, 'a');
  const json bpe = {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}};
  const json unigram = {{"type", "Unigram"},
                        {"unk_id", 0},
                        {"vocab", json::array({json::array({"<unk>", 0}), json::array({"a", -1}),
                                               json::array({token, -2})})}};
  const json wordpiece = {{"type", "WordPiece"},
                          {"vocab", {{"[UNK]", 0}, {"a", 1}, {"##a", 2}, {token, 3}}},
                          {"max_input_chars_per_word", 1 << 30}};
  const json added = json::array({{{"id", 1}, {"content", token}}});
  return {json{{"model", unigram}}.dump(), json{{"model", wordpiece}}.dump(),
          json{{"model", bpe}, {"added_tokens", added}}.dump()};
}

/// Every position of a text looks for the longest token that begins there.
TEST(TokenLimits, TokensLongerThanAnyOfARealVocabularyAreRefused) {
  for (const std::string& document : documents_with(Trie::kLongestKey)) {
    const Tokenizer tokenizer = Tokenizer::from_json(document, "t.json");
    EXPECT_EQ(tokenizer.encode_ids(std::string(Trie::kLongestKey, 'a')).size(), 1u);
  }
  for (const std::string& document : documents_with(Trie::kLongestKey + 1)) {
    EXPECT_ERROR(Tokenizer::from_json(document, "t.json"),
                 "t.json: token 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…' has 1281 bytes; at "
                 "most 1280 are supported");
  }
  // Normalized, an added token may be longer than it is written.
  json growing = json::parse(documents_with(Trie::kLongestKey)[2]);
  growing["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  growing["added_tokens"][0]["normalized"] = true;
  EXPECT_ERROR(Tokenizer::from_json(growing.dump(), "t.json"), "has 2560 bytes");
}

TEST(TokenLimits, ScoredPiecesAreRefusedBeforeTheirMergesAreSought) {
  text::SpmVocabulary v;
  v.file = "m.gguf";
  v.pieces = {{"a", 0, text::SpmVocabulary::Type::normal},
              {std::string(1 << 20, 'a'), -1, text::SpmVocabulary::Type::normal}};
  EXPECT_ERROR(text::build_spm(v), "m.gguf: token 'aaaa");
  EXPECT_ERROR(text::read_sentencepiece(piece("a", 0, 1) + piece(v.pieces[1].text, 0, 1), "m.spm"),
               "m.spm: token 'aaaa");
}

/// No trie holds the tokens of a byte-level BPE, but each id stands for one of them.
TEST(TokenLimits, NoIdStandsForMuchText) {
  const auto with = [](size_t size) {
    return json{{"model",
                 {{"type", "BPE"},
                  {"vocab", {{"a", 0}, {std::string(size, 'a'), 1}}},
                  {"merges", json::array()}}}}
        .dump();
  };
  const Tokenizer tokenizer = Tokenizer::from_json(with(text::kLongestToken), "t.json");
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{1}).size(), text::kLongestToken);
  EXPECT_ERROR(Tokenizer::from_json(with(text::kLongestToken + 1), "t.json"),
               "t.json: token 'aaaa");
}

json replace_step(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

/// A BPE of "a" alone, whose normalizers or decoders are `steps`.
json with_steps(const char* field, const char* list, json steps) {
  return {{field, {{"type", "Sequence"}, {list, std::move(steps)}}},
          {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}}};
}

constexpr const char* kTooLong = "normalizers make a text more than 8 times as long";

TEST(TokenLimits, OnlyAShortTextMayGrowManyTimes) {
  EXPECT_EQ(text::grown_limit(1), 48u + 4096u);
  EXPECT_EQ(text::grown_limit(1 << 20), (size_t{9} << 20));
  json steps = json::array();
  for (int i = 0; i < 5; ++i) {
    steps.push_back(replace_step("a", "aa"));
  }
  const Tokenizer tokenizer =
      Tokenizer::from_json(with_steps("normalizer", "normalizers", steps).dump(), "t.json");
  EXPECT_EQ(tokenizer.encode_ids("aaaa").size(), 128u);
  EXPECT_ERROR(tokenizer.encode_ids(std::string(1 << 18, 'a')), kTooLong);
}

/// Each stretch between added tokens is a text of its own to the normalizers and pre-tokenizers,
/// but they grow together.
TEST(TokenLimits, StretchesBetweenAddedTokensGrowTogether) {
  const std::string prefix(4000, 'a');
  std::string text;
  for (int i = 0; i < 10'000; ++i) {
    text += "aX";
  }
  for (const bool normalized : {false, true}) {
    json document = with_steps("normalizer", "normalizers", json::array());
    document["added_tokens"] = {{{"id", 1}, {"content", "X"}, {"normalized", normalized}}};
    if (normalized) {
      document["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", prefix}};
    } else {
      document["normalizer"]["normalizers"] = {{{"type", "Prepend"}, {"prepend", prefix}}};
    }
    const Tokenizer tokenizer = Tokenizer::from_json(document.dump(), "t.json");
    EXPECT_EQ(tokenizer.encode_ids("aX").size(), 4002u);
    EXPECT_ERROR(tokenizer.encode_ids(text), kTooLong);
  }
}

TEST(TokenLimits, ANodeOfATrieHasAnyNumberOfEdges) {
  Trie trie;
  const auto key = [](int i) {
    return std::string{static_cast<char>(i % 256), static_cast<char>(i / 256)};
  };
  for (int i = 0; i < 2000; ++i) {
    trie.insert(key(i), i);
  }
  for (int i = 0; i < 2000; ++i) {
    const Trie::Match match = trie.longest(key(i) + "x");
    EXPECT_EQ(match.length, 2u);
    EXPECT_EQ(match.value, i);
  }
  EXPECT_EQ(trie.longest(key(2000)).length, 0u);
  EXPECT_EQ(trie.longest(std::string("\0\0", 2)).value, 0);
  EXPECT_EQ(trie.longest("").length, 0u);
}

}  // namespace
}  // namespace heed::test
