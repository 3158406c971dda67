// Token shards and texts: what a damaged shard, a wrong id and a visitor that has enough lead to.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/file.h"
#include "data/shard.h"
#include "data/table.h"
#include "data/text_reader.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

class DataEdges : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  TemporaryFolder folder_;
};

TEST_F(DataEdges, ShardsRefuseIdsAndPlacesOutOfRange) {
  const std::vector<TokenId> wide{70000};
  const std::vector<TokenId> negative{-1};
  const std::vector<TokenId> large{TokenId{1} << 32};
  ShardWriter narrow_writer(folder_ / "narrow", 65536);
  EXPECT_ERROR(narrow_writer.append(wide), "id 70000 at token 0 has no room");
  EXPECT_ERROR(narrow_writer.append(negative), "id -1 at token 0 has no room");
  ShardWriter wide_writer(folder_ / "wide", 65537);
  EXPECT_ERROR(wide_writer.append(large), "id 4294967296 at token 0 has no room");
  EXPECT_ERROR(TokenShard::from({negative}), "id -1 at token 0 is not in 0");
  EXPECT_ERROR(TokenShard::from({large}), "id 4294967296 at token 0 is not in 0");
  const TokenShard shard = TokenShard::from({{5, 6}, {7}});
  int64_t ids[3] = {};
  EXPECT_ERROR(shard.copy(-1, 1, ids), "1 ids from -1 on do not lie within 3");
  EXPECT_ERROR(shard.copy(0, -1, ids), "-1 ids from 0 on do not lie within 3");
  EXPECT_ERROR(shard.copy(1, 3, ids), "3 ids from 1 on do not lie within 3");
  EXPECT_EQ(shard.token(2), 7);
}

TEST_F(DataEdges, ShardFilesNameTheIdThatTheVocabularyLacks) {
  for (const int64_t vocabulary : {int64_t{100}, int64_t{100000}}) {
    const auto path = folder_ / "shard";
    {
      ShardWriter writer(path, vocabulary);
      const std::vector<TokenId> ids{5, 60, 7};
      writer.append(ids);
      writer.finish(1);
    }
    const TokenShard shard = TokenShard::open(path);
    EXPECT_NO_THROW(shard.check_vocabulary(61, "t"));
    EXPECT_ERROR(shard.check_vocabulary(60, "t"),
                 "t: id 60 at token 1 is not below the vocabulary's size 60");
  }
}

TEST_F(DataEdges, SequencesOfAShardAscend) {
  const auto path = folder_ / "shard";
  {
    ShardWriter writer(path, 100);
    for (const TokenId id : {1, 2, 3, 4}) {
      const std::vector<TokenId> ids{id};
      writer.append(ids);
      writer.end_sequence();
    }
    writer.finish(1);
  }
  const std::string whole = read_file(path);
  const auto with_end = [&](size_t sequence, uint64_t end) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + 8 + 8 * sequence, &end, sizeof end);  // behind four ids of 2 bytes
    return write("damaged", bytes);
  };
  EXPECT_ERROR(TokenShard::open(with_end(1, 0)), "sequence 1 ends at token 0, which cannot be");
  EXPECT_ERROR(TokenShard::open(with_end(1, 5)), "sequence 1 ends at token 5, which cannot be");
  EXPECT_ERROR(TokenShard::open(with_end(3, 3)), "1 of 4 tokens belong to no sequence");
}

TEST_F(DataEdges, AVisitorThatHasEnoughEndsTheReading) {
  DataOptions options;
  options.text_field = "text";
  options.label_field = "label";
  options.source_field = "a";
  options.target_field = "b";
  const auto plain = write("a.txt", "one\n");
  const auto table = write("t.csv", "text,label\none,1\n,1\ntwo,2\n");
  for (const std::string& file : {plain, table}) {
    int seen = 0;
    const TextVisitor visitor{[&](const std::string&) { return ++seen < 1; }, [] {}};
    visit_texts({file, file}, options, visitor);
    EXPECT_EQ(seen, 1) << file;
  }
  std::vector<std::string> texts;
  visit_texts({table}, options,
              {[&](std::string text) {
                 texts.push_back(std::move(text));
                 return true;
               },
               [] {}});
  EXPECT_EQ(texts, (std::vector<std::string>{"one", "two"}));  // the empty row is skipped
  int labelled = 0;
  visit_labelled(table, options,
                 [&](const LabelledText&, const TableReader&) { return ++labelled < 1; });
  EXPECT_EQ(labelled, 1);
  const auto pairs = write("p.csv", "a,b\nx,\n,y\nx,y\n");
  int visited = 0;
  visit_pairs(pairs, options, [&](const TextPair&) { return ++visited < 1; });
  EXPECT_EQ(visited, 1);
  visited = 0;
  const auto lines = write("l.en", "x\n\nx\nx\n") + "," + write("l.ko", "\ny\ny\ny\n");
  visit_pairs(lines, options, [&](const TextPair&) { return ++visited < 2; });
  EXPECT_EQ(visited, 2);
}

TEST_F(DataEdges, AQuotedFieldHasAnEnd) {
  std::string endless = "text\n\"";
  for (int i = 0; i < 17 * 1024; ++i) {
    endless += std::string(1023, 'x') + "\n";
  }
  EXPECT_ERROR(open_table(write("t.csv", endless), {"text"}), "a quoted field does not end");
  EXPECT_ERROR(open_table(write("u.csv", "text\n\"abc\n"), {"text"}),
               "a quoted field does not end");
}

}  // namespace
}  // namespace heed::test
