#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "heed/runtime.h"
#include "heed/text.h"
#include "support/budget.h"
#include "support/data.h"
#include "support/error.h"
#include "text/gguf_pretokenizer.h"
#include "text/merge_agenda.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_impl.h"

namespace heed {
namespace {

using nlohmann::json;

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// All merges of runs of one character share a rank, so positions come in out of order.
TEST(Limits, MergingARunOfOneCharacterIsNearLinear) {
  constexpr int32_t kLongest = 16;
  text::PairTable pairs(256);
  for (int32_t a = 1; a < kLongest; ++a) {
    for (int32_t b = 1; a + b <= kLongest; ++b) {
      pairs.insert(a, b, a + b == 2 ? 1 : 0, a + b);  // ids are the lengths of the runs
    }
  }
  const auto merged = [&](size_t count) {
    std::vector<text::Symbol> symbols(count, {1, 1});
    text::MergeAgenda().merge(symbols, pairs);
    return symbols;
  };
  EXPECT_EQ(merged(64).size(), 4u);
  EXPECT_LT(test::cpu_seconds([&] { merged(1'000'000); }), test::budget(20.0));
}

class Runs : public testing::TestWithParam<const char*> {};

TEST_P(Runs, AreEncodedInNearLinearTime) {
  const std::string file = std::string("tokenizers/") + GetParam();
  HEED_NEEDS_SHARED(file);
  const Tokenizer tokenizer = Tokenizer::load(test::shared_data(file));
  for (const char* character : {" ", "a", "\xE2\x96\x81", "한", "\n", "!"}) {
    const std::string text = repeated(character, 200'000);
    EXPECT_LT(test::cpu_seconds([&] { tokenizer.encode_ids(text); }), test::budget(20.0))
        << character;
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, Runs,
                         testing::Values("llama-spm.gguf", "gpt-2.gguf", "bert-bge.gguf",
                                         "llama2.model", "unigram-1k.model", "tiny-t5.model",
                                         "bytefallback-2k.model"));

json unigram_document(json normalizer) {
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", 0},
            {"vocab", json::array({json::array({"<unk>", 0.0}), json::array({"a", -1.0}),
                                   json::array({"aa", -1.5}), json::array({"b", -2.0}),
                                   json::array({"\u2581", -3.0})})}}}};
}

TEST(Limits, NormalizersCannotMultiplyTextWithoutBound) {
  json steps = json::array();
  for (int i = 0; i < 12; ++i) {
    steps.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", repeated("a", 100)}});
  }
  const Tokenizer tokenizer = Tokenizer::from_json(
      unigram_document({{"type", "Sequence"}, {"normalizers", steps}}).dump(), "grow.json");
  try {
    tokenizer.encode_ids("aaaa");
    FAIL() << "the text grew";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("grow.json: the tokenizer's normalizers"),
              std::string::npos);
  }
}

TEST(Tokens, UnknownUnigramPiecesShowTheirText) {
  const Tokenizer tokenizer = Tokenizer::from_json(unigram_document(nullptr).dump());
  const Encoding encoding = tokenizer.encode("aaxyb");
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{2, 0, 3}));
  EXPECT_EQ(encoding.tokens, (std::vector<std::string>{"aa", "xy", "b"}));
}

TEST(Tokens, WhatIsPutBeforeATextStandsForItsFirstCharacter) {
  const Tokenizer tokenizer =
      Tokenizer::from_json(unigram_document({{"type", "Prepend"}, {"prepend", "\u2581"}}).dump());
  const Encoding encoding = tokenizer.encode("ab");
  EXPECT_EQ(encoding.tokens, (std::vector<std::string>{"\u2581", "a", "b"}));
  EXPECT_EQ(encoding.offsets, (std::vector<TextSpan>{{0, 1}, {0, 1}, {1, 2}}));
}

/// Only spaces are trimmed: not a tab, and not the bytes 85 and A0 of other characters.
TEST(Tokens, TrimmedOffsetsLeaveOutSpacesOnly) {
  json vocabulary = json::object();
  int32_t id = 0;
  for (const char* token :
       {"a", "b", "\u0120", "\u0109", "\u00EC", "\u013B", "\u0142", "\u0120b"}) {
    vocabulary[token] = id++;
  }
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const json document = {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", byte_level},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"\u0120 b"}}}}};
  const Tokenizer tokenizer = Tokenizer::from_json(document.dump());
  EXPECT_EQ(tokenizer.encode("a\tb").offsets, (std::vector<TextSpan>{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(tokenizer.encode("a b").offsets, (std::vector<TextSpan>{{0, 1}, {2, 3}}));
  const Encoding syllable = tokenizer.encode("\xEC\x99\xA0");  // 왠
  EXPECT_EQ(syllable.offsets.back().end, 3);
  // A space in front that the text does not have is trimmed by a whole character.
  json prefixed = document;
  prefixed["pre_tokenizer"]["add_prefix_space"] = true;
  prefixed["post_processor"]["add_prefix_space"] = true;
  const Encoding in_front = Tokenizer::from_json(prefixed.dump()).encode("\xEC\x99\xA0");
  EXPECT_EQ(in_front.offsets.front(), (TextSpan{0, 0}));
  EXPECT_EQ(in_front.offsets.back().end, 3);
}

/// Words are merged one by one, but for those that a token such as Gemma's ">▁</" joins.
TEST(Tokens, ATokenMayReachAcrossTwoWords) {
  json vocabulary = json::object();
  for (const char* token :
       {"a", ">", "<", "/", "\u2581", "\u2581<", "\u2581</", ">\u2581</", "\u2581a"}) {
    vocabulary[token] = vocabulary.size();
  }
  const json document = {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}}},
      {"post_processor", nullptr},
      {"decoder", nullptr},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocabulary},
        {"merges", {"\u2581 <", "\u2581< /", "> \u2581</", "\u2581 a"}}}}};
  const Tokenizer tokenizer = Tokenizer::from_json(document.dump());
  const Encoding encoding = tokenizer.encode("a a> </ a</");
  EXPECT_EQ(encoding.tokens,
            (std::vector<std::string>{"a", "\u2581a", ">\u2581</", "\u2581a", "<", "/"}));
  EXPECT_EQ(encoding.offsets,
            (std::vector<TextSpan>{{0, 1}, {1, 3}, {3, 7}, {7, 9}, {9, 10}, {10, 11}}));
  EXPECT_EQ(tokenizer.encode_ids("a a> </ a</"), encoding.ids);
}

TEST(Tokens, ARunOfBytesThatIsNotTextBecomesOneReplacementPerByte) {
  json vocabulary = json::object();
  vocabulary["<unk>"] = 0;
  vocabulary["x"] = 1;
  const std::vector<std::string> bytes = {"<0xC3>", "<0xA9>", "<0xE1>"};
  for (const std::string& byte : bytes) {
    vocabulary[byte] = vocabulary.size();
  }
  const json document = {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"byte_fallback", true},
        {"vocab", vocabulary},
        {"merges", json::array()}}}};
  const Tokenizer tokenizer = Tokenizer::from_json(document.dump());
  const auto streamed = [&](const std::vector<TokenId>& ids) {
    StreamDecoder stream(tokenizer);
    std::string all;
    for (const int32_t id : ids) {
      all += stream.push(id);
    }
    return all + stream.finish();
  };
  const std::vector<std::pair<std::vector<TokenId>, std::string>> cases = {
      {{2, 3}, "é"},
      {{2, 3, 1, 4}, "éx\uFFFD"},
      {{2, 3, 4, 1}, "\uFFFD\uFFFD\uFFFDx"},
  };
  for (const auto& [ids, expected] : cases) {
    EXPECT_EQ(tokenizer.decode(ids), expected);
    EXPECT_EQ(streamed(ids), expected);
  }
}

/// The pieces that a pre-tokenizer of a GGUF file cuts a text into.
std::vector<std::string> pieces_of(const std::string& name, const std::string& text) {
  const auto split = text::gguf_pretokenizer(name, "test.gguf");
  text::ByteLevelPlan plan;
  const json gpt2 = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const auto cutter = text::make_pretokenizer(
      Json::parse((split.steps.is_null() ? gpt2 : split.steps).dump(), "test"), &plan);
  text::AlignedText aligned(text, 0, false);
  std::vector<text::Piece> pieces{{0, text.size()}};
  cutter->apply(aligned, pieces);
  std::vector<std::string> all;
  for (const text::Piece& piece : pieces) {
    all.emplace_back(aligned.text().substr(piece.begin, piece.end - piece.begin));
  }
  return all;
}

TEST(GgufPreTokenizer, CutsAsTheModelsDo) {
  using Strings = std::vector<std::string>;
  const std::string text = "It's 12345 XYz's\n\n  한국어!";
  EXPECT_EQ(pieces_of("gpt-2", text),
            (Strings{"It", "'s", " 12345", " XYz", "'s", "\n\n ", " 한국어", "!"}));
  EXPECT_EQ(pieces_of("llama-bpe", text),
            (Strings{"It", "'s", " ", "123", "45", " XYz", "'s", "\n\n", " ", " 한국어", "!"}));
  EXPECT_EQ(pieces_of("qwen2", text), (Strings{"It", "'s", " ", "1", "2", "3", "4", "5", " XYz",
                                               "'s", "\n\n", " ", " 한국어", "!"}));
  EXPECT_EQ(pieces_of("smollm", text), (Strings{"It", "'s", " ", "1", "2", "3", "4", "5", " XYz",
                                                "'s", "\n\n ", " 한국어", "!"}));
  EXPECT_EQ(pieces_of("gpt-4o", text),
            (Strings{"It's", " ", "123", "45", " XYz's", "\n\n", " ", " 한국어", "!"}));
  EXPECT_EQ(pieces_of("bloom", "Hello, world"), (Strings{"Hello", ",", " world"}));
  EXPECT_EQ(pieces_of("deepseek-v3", "a12345 漢字"), (Strings{"a", "123", "45", " ", "漢字"}));
  EXPECT_EQ(pieces_of("exaone", text), pieces_of("smollm", text));
  EXPECT_EQ(pieces_of("starcoder", text), pieces_of("smollm", text));
  EXPECT_ERROR(text::gguf_pretokenizer("no-such", "x.gguf"),
               "tokenizer.ggml.pre 'no-such' is not known (known are gpt-2");
}

}  // namespace
}  // namespace heed
