#include "data/table.h"

#include <gtest/gtest.h>

#include "data/block_reader.h"
#include "data/support.h"
#include "support/gzip.h"

namespace heed {
namespace {

using test::error_of;
using test::put;
using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(const std::filesystem::path& path, const std::vector<std::string>& columns) {
  const auto table = open_table(path, columns);
  Rows rows;
  std::vector<std::string> row;
  while (table->next(row)) {
    rows.push_back(row);
  }
  return rows;
}

TEST(Table, CsvHasQuotesCommasAndLineEnds) {
  test::TemporaryFolder folder;
  put(folder / "a.csv",
      "id,text,label\r\n1,\"one, \"\"two\"\"\",x\r\n2,\"line\nline\",\r\n\r\n3,,\"\"\r\n");
  EXPECT_EQ(rows_of(folder / "a.csv", {"label", "text"}),
            (Rows{{"x", "one, \"two\""}, {"", "line\nline"}, {"", ""}}));
}

TEST(Table, TsvTakesQuotesAsTheyAre) {
  test::TemporaryFolder folder;
  put(folder / "a.tsv", "\xef\xbb\xbf\"a\tb\"\tc\nd\te\r\n");
  EXPECT_EQ(rows_of(folder / "a.tsv", {"source", "target"}), (Rows{{"\"a", "b\""}, {"d", "e"}}));
}

TEST(Table, JsonLinesHaveNamesInAnyOrder) {
  test::TemporaryFolder folder;
  put(folder / "a.jsonl", "{\"label\": 3, \"text\": \"가\"}\n\n{\"text\":\"b\",\"label\":true}");
  EXPECT_EQ(rows_of(folder / "a.jsonl", {"text", "label"}), (Rows{{"가", "3"}, {"b", "true"}}));
}

TEST(Table, GzippedTablesAreRead) {
  test::TemporaryFolder folder;
  const Rows wanted{{"x", "one"}, {"y", "둘"}};
  put(folder / "a.tsv.gz", test::gzipped("\xef\xbb\xbflabel\ttext\nx\tone\ny\t둘\n"));
  put(folder / "a.csv.gz", test::gzipped("text,label\none,x\n둘,y\n"));
  // Two gzip files, one after the other, are one; the name need not tell.
  put(folder / "a.jsonl", test::gzipped("{\"label\":\"x\",\"text\":\"one\"}\n") +
                              test::gzipped("{\"label\":\"y\",\"text\":\"둘\"}\n"));
  for (const char* name : {"a.tsv.gz", "a.csv.gz", "a.jsonl"}) {
    EXPECT_TRUE(is_table(folder / name));
    EXPECT_EQ(rows_of(folder / name, {"label", "text"}), wanted) << name;
  }
  EXPECT_FALSE(is_table(folder / "a.txt.gz"));
  const std::string packed = read_file(folder / "a.tsv.gz");
  for (const std::string& bad :
       {packed.substr(0, 3), packed.substr(0, packed.size() - 1), packed + "x"}) {
    put(folder / "bad.tsv.gz", bad);
    EXPECT_NE(error_of([&] {
                rows_of(folder / "bad.tsv.gz", {"label", "text"});
              }).find("gzip"),
              std::string::npos);
  }
  put(folder / "c.tsv.gz", test::gzipped("a\tb\nc\n"));
  EXPECT_NE(error_of([&] {
              rows_of(folder / "c.tsv.gz", {"label", "text"});
            }).find("c.tsv.gz:2"),
            std::string::npos);
}

TEST(Table, ErrorsNameTheLine) {
  test::TemporaryFolder folder;
  const auto message = [&](const std::string& name, std::string_view text) {
    put(folder / name, text);
    return error_of([&] { rows_of(folder / name, {"label", "text"}); });
  };
  EXPECT_NE(message("a.tsv", "a\tb\nc\n").find("a.tsv:2: the row has 1 column"), std::string::npos);
  EXPECT_NE(message("b.tsv", "a\tb\nc\t\xff\n").find("b.tsv:2: byte 3 is not UTF-8"),
            std::string::npos);
  EXPECT_NE(message("a.csv", "a,b\nc,\"d\ne\n").find("a.csv:2: a quoted field does not end"),
            std::string::npos);
  EXPECT_NE(message("b.csv", "a,b\"c\n").find("b.csv:1: a quote"), std::string::npos);
  EXPECT_NE(message("c.csv", "a,b\n\"a\"x,b\n").find("c.csv:2: something"), std::string::npos);
  EXPECT_NE(message("a.jsonl", "{\"label\":1,\"text\":\"\"}\n{\"label\":1}\n").find("a.jsonl:2"),
            std::string::npos);
  EXPECT_NE(message("b.jsonl", "{\n").find("b.jsonl:1"), std::string::npos);
  EXPECT_NE(error_of([&] { open_table(folder.path() / "none.tsv", {"a"}); }), "");
  EXPECT_NE(error_of([&] { LineReader reader(folder.path()); }), "");
  EXPECT_NE(error_of([&] { LineReader reader("/dev/zero"); }), "");
}

TEST(Stream, PiecesAddUpAndCutAtSafePlacesOnly) {
  test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < 3'000'000; ++i) {
    text += "line " + std::to_string(i) +
            (i % 7 == 0   ? "\n\n"
             : i % 5 == 0 ? " \n"
                          : "\n") +
            (i % 3 == 0 ? " 들여쓰기" : "x");
  }
  PieceReader reader(put(folder / "a.txt", text));
  std::string all;
  std::string piece;
  int pieces = 0;
  while (reader.next(piece)) {
    if (!all.empty()) {
      EXPECT_EQ(all.back(), '\n');
      EXPECT_TRUE(isgraph(all[all.size() - 2]) != 0 && isgraph(piece[0]) != 0);
    }
    EXPECT_LT(piece.size(), 70'000u);
    all += piece;
    ++pieces;
  }
  EXPECT_EQ(all, text);
  EXPECT_GT(pieces, 40);
}

TEST(Stream, LongRunsAreCutBetweenCharacters) {
  test::TemporaryFolder folder;
  std::string text = "a";
  while (text.size() < 5'000'000) {
    text += "한";
  }
  PieceReader reader(put(folder / "a.txt", text));
  std::string all;
  std::string piece;
  while (reader.next(piece)) {
    EXPECT_LE(piece.size(), size_t{1} << 20);
    all += piece;
  }
  EXPECT_EQ(all, text);
}

TEST(Stream, BadBytesHaveTheirLine) {
  test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100'000; ++i) {
    text += "line\n";
  }
  const std::string name = put(folder / "a.txt", text + "ab\xc3(\n");
  PieceReader reader(name);
  std::string piece;
  EXPECT_NE(error_of([&] {
              while (reader.next(piece)) {
              }
            }).find("a.txt: line 100001 is not UTF-8"),
            std::string::npos);
}

TEST(Table, ValuesAndLabelsHaveALength) {
  test::TemporaryFolder folder;
  const std::string good = "label\ttext\nyes\ta text\n";
  const auto load = [&](const std::string& rows) {
    DataOptions options;
    options.cache = folder / "cache";
    return load_labelled(put(folder / "a.tsv", rows), test::word_tokenizer({"a", "text"}), {},
                         options);
  };
  EXPECT_EQ(load(good).labels.size(), 1u);
  EXPECT_NE(error_of([&] {
              load(good + std::string(5000, 'y') + "\ta\n");
            }).find("a.tsv:3: a label has 5000 bytes; at most 4096 are supported"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              load(good + "yes\t" + std::string(9 << 20, 'y') + "\n");
            }).find("has 9437184 bytes; at most 8388608 are supported"),
            std::string::npos);
}

}  // namespace
}  // namespace heed
