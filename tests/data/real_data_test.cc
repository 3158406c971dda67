#include <gtest/gtest.h>

#include "data/support.h"

namespace heed {
namespace {

/// Splits at white space: every word it was not told of is unknown.
Tokenizer words() { return test::word_tokenizer({"a", "the", "man"}, true); }

TEST(RealData, ShardsOfRealTokenizersHaveTheIdsOfTheWholeText) {
  HEED_NEEDS_SHARED("tokenizers/gpt2.vocab.json");
  HEED_NEEDS_SHARED("shakespeare/input.txt");
  HEED_NEEDS_SHARED("korean-english/korean-english-park.test.ko");
  test::TemporaryFolder folder;
  DataOptions options;
  options.cache = folder / "cache";
  for (const char* vocabulary : {"gpt2.vocab.json", "bert-base-uncased.vocab.txt"}) {
    const Tokenizer tokenizer =
        Tokenizer::load(test::shared_data(std::string("tokenizers/") + vocabulary));
    for (const char* name :
         {"shakespeare/input.txt", "korean-english/korean-english-park.test.ko"}) {
      const std::string file = test::shared_data(name).string();
      std::ifstream stream(file, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(stream)), {});
      std::vector<TokenId> expected = tokenizer.encode_ids(text, false);
      if (tokenizer.special().eos) {
        expected.push_back(*tokenizer.special().eos);
      }
      const TokenShard shard = load_text(file, tokenizer, options);
      std::vector<int64_t> ids(static_cast<size_t>(shard.tokens()));
      shard.copy(0, shard.tokens(), ids.data());
      EXPECT_TRUE(ids == std::vector<int64_t>(expected.begin(), expected.end()))
          << vocabulary << " " << name;
    }
  }
}

TEST(RealData, Multi30kPairsLineByLine) {
  HEED_NEEDS_SHARED("multi30k/train.en");
  test::TemporaryFolder folder;
  DataOptions options;
  options.cache = folder / "cache";
  const std::string data = test::shared_data("multi30k").string() + "/train.{en,de}";
  const PairData pairs = load_pairs(data, words(), words(), options);
  EXPECT_EQ(pairs.source.sequences(), 29000);
  EXPECT_EQ(pairs.target.sequences(), 29000);
  EXPECT_EQ(read_pairs(data, options, 1)[0].source,
            "Two young, White males are outside near many bushes.");
}

TEST(RealData, NsmcHasTwoLabels) {
  HEED_NEEDS_SHARED("nsmc/test.tsv");
  test::TemporaryFolder folder;
  DataOptions options;
  options.cache = folder / "cache";
  const LabelledData set =
      load_labelled(test::shared_data("nsmc/test.tsv").string(), words(), {}, options);
  EXPECT_EQ(set.labels, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(set.text.sequences(), 50000);
}

TEST(RealData, TatoebaIsATableOfThreeColumns) {
  HEED_NEEDS_SHARED("korean-english/tatoeba.tsv");
  const auto pairs = read_pairs(test::shared_data("korean-english/tatoeba.tsv").string());
  EXPECT_EQ(pairs.size(), 3798u);
  EXPECT_EQ(pairs[1], (TextPair{"Hi.", "안녕."}));
}

}  // namespace
}  // namespace heed
