#include <gtest/gtest.h>

#include <random>

#include "heed/runtime.h"
#include "heed/text.h"

namespace heed {
namespace {

const std::string kText =
    "The animal didn't cross the street because it was too tired. 동물은 너무 피곤해서 길을 건너지 "
    "않았다. 안녕하세요! L'été 2024, 12,345.67 — naïve café; 日本語もある。 "
    "🦙🚀\r\n\ttabs "
    " "
    "and "
    "spaces, tired animals, the street, the streets, crossing.\n";

Tokenizer trained(TokenizerKind kind, int64_t size = 400) {
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += kText;
  }
  const std::vector<std::string_view> texts{text};
  TokenizerTraining options;
  options.kind = kind;
  options.vocab_size = size;
  return train_tokenizer(texts, options);
}

std::vector<std::string> random_texts() {
  std::mt19937 random(11);
  std::vector<std::string> texts{"", " ", "\n", kText};
  for (int round = 0; round < 100; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      if (random() % 3 == 0) {
        text += static_cast<char>(random() % 256);
      } else {
        text += kText.substr(random() % kText.size(), random() % 7);
      }
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(Property, ByteLevelRoundTripIsExact) {
  const Tokenizer tokenizer = trained(TokenizerKind::byte_bpe);
  for (const std::string& text : random_texts()) {
    const std::vector<TokenId> ids = tokenizer.encode_ids(text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    EXPECT_EQ(tokenizer.encode(text).ids, ids);
  }
}

TEST(Property, ByteLevelOffsetsCoverTheText) {
  const Tokenizer tokenizer = trained(TokenizerKind::byte_bpe);
  for (const std::string& text : random_texts()) {
    const Encoding encoding = tokenizer.encode(text);
    int64_t at = 0;
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      const TextSpan span = encoding.offsets[i];
      EXPECT_EQ(span.begin, at);
      at = span.end;
      const std::vector<TokenId> one{encoding.ids[i]};
      EXPECT_EQ(tokenizer.decode(one), text.substr(static_cast<size_t>(span.begin),
                                                   static_cast<size_t>(span.end - span.begin)));
    }
    EXPECT_EQ(at, static_cast<int64_t>(text.size()));
  }
}

TEST(Property, WordPieceOffsetsPointAtTheirBytes) {
  const Tokenizer tokenizer = trained(TokenizerKind::wordpiece);
  const std::string text = "the street, the 동물은 café!";
  const Encoding encoding = tokenizer.encode(text);
  EXPECT_EQ(encoding.ids, tokenizer.encode_ids(text));
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const TextSpan span = encoding.offsets[i];
    std::string token = encoding.tokens[i];
    if (encoding.special_tokens_mask[i] != 0) {
      EXPECT_EQ(span, TextSpan{});
      continue;
    }
    token = token.starts_with("##") ? token.substr(2) : token;
    EXPECT_EQ(
        text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin)),
        token);
  }
}

TEST(Property, StreamedDecodingEqualsWhole) {
  for (const TokenizerKind kind : {TokenizerKind::byte_bpe, TokenizerKind::wordpiece,
                                   TokenizerKind::unigram, TokenizerKind::character}) {
    const Tokenizer tokenizer = trained(kind);
    for (const std::string& text : random_texts()) {
      const std::vector<TokenId> ids = tokenizer.encode_ids(text);
      StreamDecoder stream(tokenizer);
      std::string whole;
      for (const int32_t id : ids) {
        whole += stream.push(id);
      }
      whole += stream.finish();
      EXPECT_EQ(whole, tokenizer.decode(ids));
    }
  }
}

/// Every part that a stream gives out for valid text is valid: no syllable is ever broken.
TEST(Property, StreamNeverBreaksACharacter) {
  const Tokenizer tokenizer = trained(TokenizerKind::byte_bpe, 257);
  const std::string text = "동물은 🦙 é 길을";
  StreamDecoder stream(tokenizer);
  std::string whole;
  for (const int32_t id : tokenizer.encode_ids(text)) {
    const std::string part = stream.push(id);
    if (!part.empty()) {
      EXPECT_NE(static_cast<unsigned char>(part[0]) & 0xC0, 0x80);
    }
    whole += part;
  }
  EXPECT_EQ(whole, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Property, BatchDoesNotDependOnThreads) {
  const Tokenizer tokenizer = trained(TokenizerKind::byte_bpe);
  const std::vector<std::string> texts = random_texts();
  const int before = thread_count();
  set_thread_count(1);
  const auto one = tokenizer.encode_batch(texts, {});
  set_thread_count(4);
  const auto four = tokenizer.encode_batch(texts, {});
  set_thread_count(before);
  ASSERT_EQ(one.size(), four.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].ids, four[i].ids);
    EXPECT_EQ(one[i].ids, tokenizer.encode_ids(texts[i]));
  }
}

TEST(Property, TruncationAndPadding) {
  const Tokenizer tokenizer = trained(TokenizerKind::wordpiece);
  const std::vector<std::string> texts{"the street the street the street", "tired", ""};
  Tokenizer::BatchOptions options;
  options.truncation = Truncation{.max_length = 5};
  options.padding = Padding{};
  options.padding->id = *tokenizer.special().pad;
  const auto batch = tokenizer.encode_batch(texts, options);
  for (const Encoding& one : batch) {
    EXPECT_EQ(one.ids.size(), 5u);
    EXPECT_EQ(one.offsets.size(), 5u);
    EXPECT_EQ(one.ids[0], *tokenizer.special().cls);
  }
  EXPECT_EQ(batch[0].ids[4], *tokenizer.special().sep);
  EXPECT_EQ(batch[2].attention_mask, (std::vector<TokenId>{1, 1, 0, 0, 0}));
  options.truncation->side = Side::left;
  options.padding->side = Side::left;
  options.padding->multiple_of = 4;
  const auto left = tokenizer.encode_batch(texts, options);
  EXPECT_EQ(left[2].attention_mask, (std::vector<TokenId>{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(left[0].offsets[6].end, static_cast<int64_t>(texts[0].size()));
}

TEST(Property, PairsAndTheirTypes) {
  const Tokenizer tokenizer = trained(TokenizerKind::wordpiece);
  const Encoding pair = tokenizer.encode_pair("the", "street");
  const size_t size = pair.ids.size();
  EXPECT_EQ(pair.type_ids.front(), 0);
  EXPECT_EQ(pair.type_ids.back(), 1);
  EXPECT_EQ(pair.ids.front(), *tokenizer.special().cls);
  EXPECT_EQ(pair.ids.back(), *tokenizer.special().sep);
  EXPECT_EQ(tokenizer.encode_pair("the", "street", false).ids.size(), size - 3);
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"the street the street", "tired tired tired tired tired tired"}};
  Tokenizer::BatchOptions options;
  options.truncation = Truncation{.max_length = 8};
  EXPECT_EQ(tokenizer.encode_batch(pairs, options)[0].ids.size(), 8u);
}

/// Affixes go on the written form of the bytes, as Hugging Face has it.
TEST(Property, ByteLevelWithAffixes) {
  const Tokenizer tokenizer = Tokenizer::from_json(R"({
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
    "model":{"type":"BPE","continuing_subword_prefix":"##","end_of_word_suffix":"/",
             "vocab":{"a":0,"##b/":1,"ab/":2,"Ġ":3,"##a/":4},"merges":[["a","##b/"]]}})");
  EXPECT_EQ(tokenizer.encode_ids("ab a"), (std::vector<TokenId>{2, 3, 4}));
}

TEST(Property, AddedTokensAreFoundInText) {
  const Tokenizer tokenizer = Tokenizer::from_json(R"({
    "added_tokens":[{"id":3,"content":"<x>","special":true,"normalized":false,"lstrip":true},
                    {"id":4,"content":"Foo","special":false,"normalized":true}],
    "normalizer":{"type":"Lowercase"},
    "pre_tokenizer":{"type":"WhitespaceSplit"},
    "model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"a":1,"b":2}}})");
  const Encoding encoding = tokenizer.encode("A  <x>b FOO a");
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{1, 3, 2, 4, 1}));
  EXPECT_EQ(encoding.offsets[1], (TextSpan{1, 6}));
  EXPECT_EQ(encoding.offsets[3], (TextSpan{8, 11}));
  EXPECT_EQ(tokenizer.encode_ids("A  <x>b FOO a"), encoding.ids);
  EXPECT_EQ(tokenizer.vocab_size(), 5);
  EXPECT_EQ(tokenizer.id_to_token(3), "<x>");
  EXPECT_TRUE(tokenizer.is_special(3));
  EXPECT_FALSE(tokenizer.is_special(4));
}

}  // namespace
}  // namespace heed
