#include <gtest/gtest.h>

#include <fstream>

#include "heed/runtime.h"
#include "heed/text.h"
#include "support/data.h"
#include "support/error.h"
#include "text/bpe_trainer.h"
#include "text/gpt2_split.h"
#include "text/word_count.h"

namespace heed {
namespace {

std::string corpus(size_t bytes) {
  static const std::vector<std::string> kWords = {"the",  "animal", "street", "tired",  "it's",
                                                  "wide", "동물은", "길을",   "건넜다", "1234"};
  std::string text;
  for (uint32_t state = 1; text.size() < bytes;) {
    state = state * 1664525 + 1013904223;
    text += kWords[(state >> 16) % kWords.size()];
    text += (state >> 9) % 11 == 0 ? ".\n" : (state >> 9) % 13 == 0 ? "  " : " ";
  }
  return text;
}

TEST(Train, BpeByHand) {
  // "aaab" three times, "ab" twice: a·a (6) first, then a·b (5 left over: 3 + 2).
  text::BpeTraining options;
  options.vocab_size = 5;
  options.min_frequency = 1;
  options.tokens = {"a", "b"};
  const text::BpeTrained trained = text::train_bpe({{"aaab", 3}, {"ab", 2}}, options);
  EXPECT_EQ(trained.tokens, (std::vector<std::string>{"a", "b", "aa", "ab", "aaab"}));
  ASSERT_EQ(trained.merges.size(), 3u);
  EXPECT_EQ(trained.merges[0], (std::pair<int32_t, int32_t>{0, 0}));
  EXPECT_EQ(trained.merges[1], (std::pair<int32_t, int32_t>{0, 1}));
}

TEST(Train, ChunksDoNotChangeTheWords) {
  const std::string text = corpus(3 << 20);
  std::vector<std::string_view> whole;
  text::Gpt2Splitter words(text);
  for (std::string_view word; words.next(word);) {
    whole.push_back(word);
  }
  std::vector<std::string_view> parts;
  const auto chunks = text::chunks_of(text);
  EXPECT_GT(chunks.size(), 1u);
  for (const std::string_view chunk : chunks) {
    text::Gpt2Splitter splitter(chunk);
    for (std::string_view word; splitter.next(word);) {
      parts.push_back(word);
    }
  }
  EXPECT_EQ(parts, whole);
}

TEST(Train, SameWithAnyNumberOfThreadsAndAfterSaving) {
  const test::TemporaryFolder folder;
  const std::string text = corpus(2 << 20);
  const std::vector<std::string_view> texts{text};
  const int before = thread_count();
  for (const TokenizerKind kind :
       {TokenizerKind::byte_bpe, TokenizerKind::wordpiece, TokenizerKind::character}) {
    TokenizerTraining options;
    options.kind = kind;
    options.vocab_size = 320;
    std::string first;
    for (const int threads : {1, 4}) {
      set_thread_count(threads);
      const Tokenizer tokenizer = train_tokenizer(texts, options);
      tokenizer.save(folder.path());
      std::ifstream in(folder / "tokenizer.json");
      const std::string saved((std::istreambuf_iterator<char>(in)), {});
      EXPECT_EQ(first.empty() ? saved : first, saved);
      first = saved;
      const Tokenizer again = Tokenizer::load(folder.path());
      const std::string sample = text.substr(0, 500) + "zebra 새";
      EXPECT_EQ(again.encode_ids(sample), tokenizer.encode_ids(sample));
      EXPECT_EQ(again.vocab_size(), tokenizer.vocab_size());
      EXPECT_EQ(again.special().pad, tokenizer.special().pad);
    }
  }
  set_thread_count(before);
}

TEST(Train, UnigramIsDeterministicAndRoundTrips) {
  const std::string text = corpus(1 << 16);
  const std::vector<std::string_view> texts{text};
  TokenizerTraining options;
  options.kind = TokenizerKind::unigram;
  options.vocab_size = 100;
  const Tokenizer one = train_tokenizer(texts, options);
  const Tokenizer two = train_tokenizer(texts, options);
  const std::string sample = "the animal 동물은 길을 건넜다";
  EXPECT_EQ(one.encode_ids(sample), two.encode_ids(sample));
  EXPECT_EQ(one.decode(one.encode_ids(sample)), sample);
  EXPECT_EQ(one.special().eos, 1);
  EXPECT_EQ(one.encode_ids(sample).back(), 1);
  const test::TemporaryFolder folder;
  one.save(folder.path());
  EXPECT_EQ(Tokenizer::load(folder.path()).encode_ids(sample), one.encode_ids(sample));
}

TEST(Train, Kinds) {
  EXPECT_EQ(parse_tokenizer_kind("bpe:8192").vocab_size, 8192);
  EXPECT_EQ(parse_tokenizer_kind("char").kind, TokenizerKind::character);
  EXPECT_EQ(parse_tokenizer_kind("wordpiece:30").kind, TokenizerKind::wordpiece);
  EXPECT_EQ(parse_tokenizer_kind("unigram:30").kind, TokenizerKind::unigram);
  for (const char* bad :
       {"", "bpe", "bpe:", "bpe:-1", "bpe:0", "bpe:1x", "x:5", "bpe:99999999999"}) {
    try {
      parse_tokenizer_kind(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << bad;
    }
  }
}

TEST(Train, BadInput) {
  const std::vector<std::string_view> nothing{""};
  EXPECT_ERROR(train_tokenizer(nothing, TokenizerTraining{}),
               "train tokenizer: there is no text to learn from");
  const std::vector<std::string_view> texts{"some text"};
  TokenizerTraining tiny;
  tiny.vocab_size = 100;  // fewer than the bytes
  EXPECT_ERROR(
      train_tokenizer(texts, tiny),
      "train tokenizer: a vocabulary of 100 has no room for the 257 tokens it begins with");
  const std::vector<std::filesystem::path> absent{"/nowhere/at/all"};
  EXPECT_ERROR(train_tokenizer(absent, TokenizerTraining{}),
               "cannot be opened: No such file or directory");
}

TEST(Train, OwnSpecialTokensComeFirst) {
  const std::string text = corpus(5000);
  const std::vector<std::string_view> texts{text};
  TokenizerTraining options;
  options.vocab_size = 300;
  options.special_tokens = {"<pad>", "<s>", "</s>"};
  const Tokenizer tokenizer = train_tokenizer(texts, options);
  EXPECT_EQ(tokenizer.special().pad, 0);
  EXPECT_EQ(tokenizer.special().bos, 1);
  EXPECT_EQ(tokenizer.special().eos, 2);
  const std::vector<TokenId> ids{1, *tokenizer.token_to_id("a"), 2};
  EXPECT_EQ(tokenizer.decode(ids), "a");
  EXPECT_EQ(tokenizer.decode(ids, false), "<s>a</s>");
}

}  // namespace
}  // namespace heed
