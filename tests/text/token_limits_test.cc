// Tokenizers come with a model and are not trusted: what their tokens, normalizers, decoders and
// templates may cost.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/text.h"
#include "io/gguf.h"
#include "support/data.h"
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

/// Nested sequences multiplied each other's limits.
TEST(TokenLimits, NestedDecodersGrowTogether) {
  json decoder = replace_step("a", "aaaaaaa");
  for (int i = 0; i < 12; ++i) {
    decoder = {{"type", "Sequence"},
               {"decoders", json::array({replace_step("a", "aaaaaaa"), decoder})}};
  }
  json document = with_steps("decoder", "decoders", json::array());
  document["decoder"] = decoder;
  const Tokenizer tokenizer = Tokenizer::from_json(document.dump(), "t.json");
  EXPECT_ERROR(tokenizer.decode(std::vector<TokenId>(10'000, 0)),
               "decoders make a text more than 8 times as long");
}

TEST(TokenLimits, TemplatesAddAFewTokens) {
  const auto with = [](size_t specials, size_t sequences, size_t ids) {
    json items = json::array();
    for (size_t i = 0; i < specials; ++i) {
      items.push_back({{"SpecialToken", {{"id", "a"}, {"type_id", 0}}}});
    }
    for (size_t i = 0; i < sequences; ++i) {
      items.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    }
    json document = with_steps("normalizer", "normalizers", json::array());
    document["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", items},
        {"pair", json::array()},
        {"special_tokens", {{"a", {{"id", "a"}, {"ids", std::vector<int>(ids, 0)}}}}}};
    return Tokenizer::from_json(document.dump(), "t.json");
  };
  EXPECT_EQ(with(128, 1, 2).encode_ids("a").size(), 257u);
  EXPECT_ERROR(with(257, 1, 1), "post_processor.single[256] is one of more than 256 special");
  EXPECT_ERROR(with(257, 1, 0), "post_processor.single[256] is one of more than 256 special");
  EXPECT_ERROR(with(2, 1, 129), "post_processor.single[1] is one of more than 256 special");
  EXPECT_ERROR(with(0, 2, 1), "post_processor.single[1] puts A into the text a second time");
}

/// A precompiled_charsmap that makes "b" of "a": the root leads to `a`, which leads to the leaf.
std::string charsmap(size_t units, uint32_t root, uint32_t a, uint32_t leaf) {
  std::vector<uint32_t> trie(units, 0x80000000u);  // reached by no byte
  trie[0] = root;
  trie['a' ^ 1] = a;
  trie['a' ^ 1 ^ 2] = leaf;
  std::string blob(4 + 4 * units, '\0');
  const auto size = static_cast<uint32_t>(4 * units);
  std::memcpy(blob.data(), &size, 4);
  std::memcpy(blob.data() + 4, trie.data(), 4 * units);
  return blob + std::string("b\0", 2);
}

/// SentencePiece reads where a trie leads, inside the file or not.
TEST(TokenLimits, CharsmapsThatLeadOutOfTheirTrieAreRefused) {
  const auto model = [](const std::string& map, int field) {
    return piece("<unk>", 0, 2) + piece("\u2581", -1, 1) + piece("b", -2, 1) +
           bytes(2, number(3, 1)) + bytes(field, bytes(2, map));
  };
  constexpr uint32_t kRoot = 1U << 10U;
  constexpr uint32_t kA = 2U << 10U | 1U << 8U | 'a';
  constexpr uint32_t kLeaf = 0x80000000u;
  const TemporaryFolder folder;
  const auto load = [&](const std::string& bytes) {
    std::ofstream(folder / "m.model", std::ios::binary) << bytes;
    return Tokenizer::load(folder / "m.model");
  };
  EXPECT_EQ(load(model(charsmap(256, kRoot, kA, kLeaf), 3)).encode_ids("a", false),
            (std::vector<TokenId>{1, 2}));
  const std::string cases[] = {
      charsmap(256, 1U << 18U, kA, kLeaf),              // the root leads out
      charsmap(256, kRoot, kA | 1U << 20U, kLeaf),      // "a" leads out
      charsmap(256, kRoot, kA, kLeaf | 2U),             // behind the last replacement
      charsmap(256, kRoot, 0x61U << 10U | 'a', kLeaf),  // without end: "aaa…"
      charsmap(255, kRoot, kA, kLeaf),                  // a byte leads out
  };
  for (const std::string& map : cases) {
    for (const int field : {3, 5}) {  // normalizer and denormalizer
      EXPECT_ERROR(load(model(map, field)), "the trie of its precompiled_charsmap is corrupt");
    }
  }
}

/// Each user-defined token was looked for among all control tokens.
TEST(TokenLimits, GgufFilesOfManySpecialTokensOpen) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (int i = 0; i < 300'000; ++i) {
    tokens.push_back("<" + std::to_string(1'000'000 + i) + ">");
    types.push_back(i % 2 == 0 ? 3 : 4);  // control, user-defined
  }
  GgufWriter writer;
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.strings("tokenizer.ggml.tokens", tokens);
  writer.strings("tokenizer.ggml.merges", {});
  writer.i32s("tokenizer.ggml.token_type", types);
  const TemporaryFolder folder;
  writer.write(folder / "m.gguf");
  EXPECT_EQ(Tokenizer::load(folder / "m.gguf").encode_ids(tokens[7] + tokens[8]),
            (std::vector<TokenId>{7, 8}));
}

TEST(TokenLimits, FilesAreBlamedInTheirOwnTerms) {
  EXPECT_ERROR(text::read_sentencepiece(piece("a", std::nanf(""), 1), "m.model"),
               "m.model: piece 'a' has no number as its score");
  const TemporaryFolder folder;
  std::ofstream(folder / "vocab.txt") << "[UNK]\na\na\na\na\n";
  EXPECT_ERROR(Tokenizer::load(folder / "vocab.txt"), "has 5 lines, but only 2 different tokens");
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
