#include <gtest/gtest.h>

#include <fstream>

#include "heed/runtime.h"
#include "heed/text.h"
#include "support/data.h"
#include "wire.h"

namespace heed {
namespace {

using test::bytes;
using test::number;
using test::piece;

/// KoBERT's kind of vocabulary: [UNK] [PAD] [CLS] [SEP] and some pieces.
std::string kobert() {
  constexpr uint32_t kNormal = 1;
  constexpr uint32_t kUnknown = 2;
  constexpr uint32_t kControl = 3;
  constexpr uint32_t kUserDefined = 4;
  return piece("[UNK]", 0, kUnknown) + piece("[PAD]", 0, kControl) +
         piece("[CLS]", 0, kUserDefined) + piece("[SEP]", 0, kUserDefined) +
         piece("▁나는", -1, kNormal) + piece("▁간다", -2, kNormal) + piece("▁", -3, kNormal) +
         bytes(2, number(3, 1) + number(40, 0) + number(43, 1)) +
         bytes(3, bytes(1, "identity") + number(3, 1) + number(4, 1));
}

class SentencePieceFolder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  Tokenizer load() const { return Tokenizer::load(folder_.path()); }
  test::TemporaryFolder folder_;
};

using Ids = std::vector<TokenId>;

TEST_F(SentencePieceFolder, ClsAndSepGoAroundATextWhereTheVocabularyHasThem) {
  write("spiece.model", kobert());
  write("tokenizer_config.json", R"({"tokenizer_class":"XLNetTokenizer"})");
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.encode("나는 간다").ids, (Ids{2, 4, 5, 3}));
  EXPECT_EQ(tokenizer.encode("나는 간다", /*add_special=*/false).ids, (Ids{4, 5}));
}

TEST_F(SentencePieceFolder, TokensAreAddedBehindThoseOfTheFile) {
  write("spm.model", kobert());
  write("added_tokens.json", R"({"[MASK]":7})");
  write("tokenizer_config.json", R"({"mask_token":"[MASK]"})");
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.encode("나는 [MASK]").ids, (Ids{2, 4, 7, 3}));
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.decode(Ids{4, 7, 5}), "나는 [MASK] 간다");
  write("added_tokens.json", R"({"[MASK]":9})");
  try {
    load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'[MASK]' the id 9"), std::string::npos)
        << error.what();
  }
}

/// KoBERT's folder keeps the pieces twice; as WordPiece the vocab.txt would find none.
TEST_F(SentencePieceFolder, AModelFileGoesBeforeVocabTxt) {
  write("tokenizer_78b3253a26.model", kobert());
  write("vocab.txt", "[UNK]\n[PAD]\n[CLS]\n[SEP]\n▁나는\n▁간다\n▁\n");
  EXPECT_EQ(load().encode("나는 간다").ids, (Ids{2, 4, 5, 3}));
}

TEST_F(SentencePieceFolder, AFileThatNumbersInAnotherWayIsRefused) {
  write("sentencepiece.bpe.model", kobert());
  try {
    load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("tokenizer.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heed
