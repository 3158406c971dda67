#include "text/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

const std::vector<std::string> kTexts = {"Hello world, this is   a test.",
                                         "It's 1999; don't panic!",
                                         "안녕하세요 세계",
                                         "Ünïcödé 😀",
                                         "new\nline\tand tab",
                                         ""};

void expect_same_ids(const Tokenizer& actual, const Tokenizer& expected, const std::string& what) {
  for (const std::string& text : kTexts) {
    for (const bool special : {false, true}) {
      EXPECT_EQ(actual.encode_ids(text, special), expected.encode_ids(text, special))
          << what << ": " << text;
    }
  }
}

class GgufVocabulary : public testing::TestWithParam<const char*> {};

/// A tokenizer written to GGUF and read back cuts text as before: from the whole that came along,
/// and from the keys that llama.cpp reads.
TEST_P(GgufVocabulary, RoundTripKeepsTheIds) {
  const std::string file = GetParam();
  HEED_NEEDS_SHARED(file);
  const Tokenizer tokenizer = Tokenizer::load(shared_data(file));
  const TemporaryFolder out;
  GgufWriter writer;
  text::add_vocabulary(writer, tokenizer, tokenizer.vocab_size() + 3);
  writer.write(out / "whole.gguf");
  const GgufFile whole(out / "whole.gguf");
  EXPECT_EQ(whole.strings("tokenizer.ggml.tokens").size(),
            static_cast<size_t>(tokenizer.vocab_size() + 3));
  expect_same_ids(Tokenizer::load(out / "whole.gguf"), tokenizer, "whole");

  GgufWriter keys;
  for (const auto& [key, value] : whole.values()) {
    if (key != "tokenizer.huggingface.json" && key != "general.alignment") {
      keys.value(key, value);
    }
  }
  keys.write(out / "keys.gguf");
  expect_same_ids(Tokenizer::load(out / "keys.gguf"), tokenizer, "keys");
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, GgufVocabulary,
                         testing::Values("tokenizers/gpt2.vocab.json",
                                         "tokenizers/bert-base-uncased.vocab.txt",
                                         "minilm/tokenizer.json", "stories260k/tok512.bin"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& c : name) {
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name;
                         });

/// Fault 35: a vocabulary that the embedding has no rows for.
TEST(GgufVocabularyFaults, MoreIdsThanRows) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
          "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "##b": 2}}})");
  GgufWriter writer;
  EXPECT_ERROR(text::add_vocabulary(writer, tokenizer, 2),
               "tokenizer.json: has ids up to 2, the model's embedding only 2 rows");
}

/// Whole words have no kind of vocabulary in llama.cpp; the tokenizer.json goes along all the same.
TEST(GgufVocabularyKinds, WholeWordsGoAlong) {
  const TemporaryFolder out;
  write_file_atomically(out / "tokenizer.json",
                        R"({"version":"1.0","added_tokens":[],"normalizer":null,
                            "pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,
                            "decoder":null,"model":{"type":"WordLevel","unk_token":"[UNK]",
                            "vocab":{"[UNK]":0,"Hello":1,"world,":2,"test.":3}}})");
  const Tokenizer tokenizer = Tokenizer::load(out / "tokenizer.json");
  GgufWriter writer;
  text::add_vocabulary(writer, tokenizer, 6);
  writer.write(out / "words.gguf");
  expect_same_ids(Tokenizer::load(out / "words.gguf"), tokenizer, "words");
}

}  // namespace
}  // namespace heed::test
