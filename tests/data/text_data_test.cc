#include <gtest/gtest.h>

#include "data/shard.h"
#include "data/support.h"
#include "heed/runtime.h"
#include "support/gzip.h"

namespace heed {
namespace {

using test::error_of;
using test::put;
using test::word_tokenizer;

std::vector<int64_t> all_tokens(const TokenShard& shard) {
  std::vector<int64_t> ids(static_cast<size_t>(shard.tokens()));
  shard.copy(0, shard.tokens(), ids.data());
  return ids;
}

std::vector<int64_t> sequence(const TokenShard& shard, int64_t index) {
  std::vector<int64_t> ids(static_cast<size_t>(shard.length(index)));
  shard.copy(shard.begin(index), shard.length(index), ids.data());
  return ids;
}

class TextData : public testing::Test {
 protected:
  TextData() { options_.cache = folder_ / "cache"; }
  std::string file(const std::string& name, std::string_view text) {
    return put(folder_ / name, text);
  }
  test::TemporaryFolder folder_;
  DataOptions options_;
};

TEST_F(TextData, StreamedTokensAreThoseOfTheWholeText) {
  std::string text;
  std::vector<std::string> words;
  for (int i = 0; i < 500; ++i) {
    words.push_back("w" + std::to_string(i));
  }
  for (int i = 0; text.size() < 2'000'000; ++i) {
    text += words[i % 8999 * 37 % 500] + (i % 11 == 0 ? "\n" : i % 17 == 0 ? "\n\n" : " ");
  }
  const Tokenizer tokenizer = word_tokenizer(words);
  const std::string name = file("a.txt", text);
  std::vector<TokenId> whole = tokenizer.encode_ids(text);
  whole.push_back(2);  // the end of a file
  for (const int threads : {1, 3}) {
    set_thread_count(threads);
    options_.cache = folder_ / ("cache" + std::to_string(threads));
    const TokenShard shard = load_text(name, tokenizer, options_);
    EXPECT_EQ(all_tokens(shard), std::vector<int64_t>(whole.begin(), whole.end()));
  }
  set_thread_count(2);
  // Gzipped, in blocks that end anywhere.
  const TokenShard packed = load_text(file("b.txt.gz", test::gzipped(text)), tokenizer, options_);
  EXPECT_EQ(all_tokens(packed), std::vector<int64_t>(whole.begin(), whole.end()));
}

TEST_F(TextData, ShardsAreMadeOnceAndAgainForOtherData) {
  int calls = 0;
  options_.progress = [&](int64_t done, int64_t total) {
    ++calls;
    EXPECT_LE(done, total);
  };
  const std::string name = file("a.txt", "a b a");
  const TokenShard first = load_text(name, word_tokenizer({"a", "b"}), options_);
  EXPECT_EQ(all_tokens(first), (std::vector<int64_t>{3, 4, 3, 2}));
  EXPECT_GT(calls, 0);
  calls = 0;
  EXPECT_EQ(load_text(name, word_tokenizer({"a", "b"}), options_).fingerprint(),
            first.fingerprint());
  EXPECT_EQ(calls, 0);
  EXPECT_NE(load_text(name, word_tokenizer({"b", "a"}), options_).fingerprint(),
            first.fingerprint());
  EXPECT_GT(calls, 0);
  file("a.txt", "b b a");
  EXPECT_EQ(all_tokens(load_text(name, word_tokenizer({"a", "b"}), options_)),
            (std::vector<int64_t>{4, 4, 3, 2}));
}

TEST_F(TextData, BrokenShardsAreMadeAgain) {
  const std::string name = file("a.txt", "a b a");
  load_text(name, word_tokenizer({"a", "b"}), options_);
  for (const auto& entry : std::filesystem::directory_iterator(options_.cache)) {
    std::filesystem::resize_file(entry.path(), 20);
  }
  EXPECT_EQ(load_text(name, word_tokenizer({"a", "b"}), options_).tokens(), 4);
}

TEST_F(TextData, FoldersTablesAndLists) {
  std::filesystem::create_directories(folder_ / "texts/sub");
  file("texts/b.txt", "b");
  file("texts/a.jsonl", "{\"text\":\"a a\"}\n{\"text\":\"b\"}\n");
  file("texts/sub/c.txt", "c");
  const std::string more = file("d.txt", "a");
  const Tokenizer tokenizer = word_tokenizer({"a", "b", "c"});
  const TokenShard shard =
      load_text((folder_ / "texts").string() + "," + more, tokenizer, options_);
  EXPECT_EQ(all_tokens(shard), (std::vector<int64_t>{3, 3, 2, 4, 2, 4, 2, 5, 2, 3, 2}));
  EXPECT_EQ(read_texts(more, options_), std::vector<std::string>{"a"});
}

TEST_F(TextData, PairsFromTwoFilesATableAndBraces) {
  const std::string en = file("t.en", "a b\n\nb\n");
  const std::string de = file("t.de", "c\nc\nc c\r\n");
  const std::string tsv = file("t.tsv", "a b\tc\tmore\nb\tc c\n");
  const Tokenizer source = word_tokenizer({"a", "b"});
  const Tokenizer target = word_tokenizer({"c"}, true);
  for (const std::string& data : {en + "," + de, (folder_ / "t.{en,de}").string(), tsv}) {
    const PairData pairs = load_pairs(data, source, target, options_);
    ASSERT_EQ(pairs.source.sequences(), 2) << data;  // the empty line is left out
    EXPECT_EQ(sequence(pairs.source, 0), (std::vector<int64_t>{3, 4}));
    EXPECT_EQ(sequence(pairs.target, 1), (std::vector<int64_t>{3, 3, 2}));
    EXPECT_EQ(read_pairs(data, options_)[1], (TextPair{"b", "c c"}));
    EXPECT_EQ(read_pairs(data, options_, 1).size(), 1u);
  }
  const std::string shorter = file("s.de", "c\n");
  EXPECT_NE(error_of([&] {
              load_pairs(en + "," + shorter, source, target, options_);
            }).find("t.en: has more lines than the other file, which ends after line 1"),
            std::string::npos);
}

TEST_F(TextData, LabelsInEitherOrderAndByName) {
  const Tokenizer tokenizer = word_tokenizer({"a", "b", "c"});
  const std::string first = file("1.tsv", "10\ta b\n9\tb\n10\tc a\n9\ta c\n");
  const std::string second = file("2.tsv", "a b\t10\nb\t9\nc a\t10\na c\t9\n");
  const std::string csv = file("3.csv", "text,label\n\"a b\",10\nb,9\nc a,10\na c,9\n");
  for (const std::string& data : {first, second, csv}) {
    const LabelledData set = load_labelled(data, tokenizer, {}, options_);
    EXPECT_EQ(set.labels, (std::vector<std::string>{"9", "10"}));  // by value
    EXPECT_EQ(all_tokens(set.label), (std::vector<int64_t>{1, 0, 1, 0}));
    EXPECT_EQ(sequence(set.text, 2), (std::vector<int64_t>{5, 3}));
    EXPECT_EQ(load_labelled(data, tokenizer, {}, options_).labels, set.labels);  // from the cache
    EXPECT_EQ(read_labelled(data, options_)[1].text, "b");
  }
  EXPECT_EQ(all_tokens(load_labelled(first, tokenizer, {"10", "9"}, options_).label),
            (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_NE(error_of([&] {
              load_labelled(first, tokenizer, {"10"}, options_);
            }).find("1.tsv:2: the label '9' is none of the 1 known"),
            std::string::npos);
}

TEST_F(TextData, EmptyOrAbsentDataIsRefused) {
  const Tokenizer tokenizer = word_tokenizer({"a"});
  EXPECT_NE(
      error_of([&] { load_text(file("e.txt", ""), tokenizer, options_); }).find("has no text"),
      std::string::npos);
  EXPECT_NE(error_of([&] { load_text((folder_ / "x").string(), tokenizer, options_); }), "");
  EXPECT_NE(error_of([&] { load_text(folder_.path().string() + "/none,", tokenizer, options_); }),
            "");
  EXPECT_NE(error_of([&] {
              load_pairs(file("e.tsv", ""), tokenizer, tokenizer, options_);
            }).find("has no pairs"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_labelled(file("e.doc", "a\tb"), tokenizer, {}, options_); }), "");
  EXPECT_NE(error_of([&] { load_text("/dev/zero", tokenizer, options_); }), "");
}

TEST(Shard, RefusesBrokenFiles) {
  test::TemporaryFolder folder;
  const auto path = folder / "a.tok";
  ShardWriter writer(path, 70000);
  const std::vector<TokenId> ids = {1, 2, 69999};
  writer.append(ids);
  writer.finish(7);
  EXPECT_EQ(TokenShard::open(path).token(2), 69999);
  EXPECT_EQ(TokenShard::open(path).fingerprint(), 7u);
  std::ifstream stream(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(stream)), {});
  const auto broken = [&](size_t from_end, char value) {
    std::string bytes = good;
    bytes[bytes.size() - from_end] = value;
    return error_of([&] { TokenShard::open(put(folder / "b.tok", bytes)); });
  };
  EXPECT_NE(broken(48, 'x'), "");     // magic
  EXPECT_NE(broken(40, 3), "");       // width
  EXPECT_NE(broken(32, 5), "");       // tokens
  EXPECT_NE(broken(25, '\x7f'), "");  // tokens beyond the file
  EXPECT_NE(broken(9, '\x7f'), "");   // sequences beyond the file
  EXPECT_NE(broken(48, 2), "");       // end of the sequence
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_NE(error_of([&] { TokenShard::open(put(folder / "c.tok", good.substr(0, length))); }),
              "");
  }
}

}  // namespace
}  // namespace heed
