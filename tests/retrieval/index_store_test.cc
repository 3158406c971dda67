// The tables of an index: settings that cannot be, and vectors that come and go.
#include "retrieval/index_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cmath>

#include "retrieval/database.h"
#include "retrieval/seal.h"
#include "retrieval/support.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

IndexSettings settings_of_two() {
  IndexSettings settings;
  settings.model = "m";
  settings.dimension = 2;
  settings.vector_type = "f32";
  return settings;
}

TEST(IndexStore, SettingsThatCannotBeAreDamage) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.heed-index";
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"dimension", "x", "is damaged: dimension is x"},
      {"dimension", "2x", "is damaged: dimension is 2x"},
      {"dimension", "-2", "is damaged: dimension is -2"},
      {"dimension", "0", "is damaged: vectors of 0 f32"},
      {"dimension", "1048577", "is damaged: vectors of 1048577 f32"},
      {"vector_type", "f16", "is damaged: vectors of 2 f16"},
      {"pooling", "xx\x1b", "is damaged: pooling is xx\\x1b"},
      {"chunk_tokens", "7", "is damaged: 7 tokens per chunk with an overlap of 40"},
      {"overlap_tokens", "99999999999", "is damaged: 200 tokens per chunk with an overlap of 99"},
  };
  for (const auto& [key, value, why] : cases) {
    IndexStore::create(path, settings_of_two());
    {
      const Database database(path, Database::Mode::write);
      Statement(database, "UPDATE meta SET value = ? WHERE key = ?")
          .bind(std::string_view(value), std::string_view(key))
          .run();
    }
    const std::string message =
        test::message_of([&] { IndexStore::open(path, false); }, ErrorKind::data);
    EXPECT_TRUE(test::message_has(message, path.native() + ": " + why));
    std::filesystem::remove(path);
  }
  {
    IndexStore::create(path, settings_of_two());
    const Database database(path, Database::Mode::write);
    database.execute("DELETE FROM meta WHERE key = 'model'");
  }
  EXPECT_ERROR(IndexStore::open(path, false), "is damaged: model is missing");
}

TEST(IndexStore, BlocksOfVectorsComeAndGo) {
  const test::TemporaryFolder folder;
  const IndexStore store = IndexStore::create(folder / "a.heed-index", settings_of_two());
  StoredFile file;
  file.path = "a.txt";
  const int64_t id = store.put_file(file);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 4; ++i) {
    Chunk chunk;
    chunk.text = "text " + std::to_string(i);
    ids.push_back(store.add_chunk(id, i, chunk));
  }
  const float vectors[] = {1, 0, 0, 1, 1, 1, 0, 2};
  store.add_vectors({}, vectors);  // no chunks: no block
  store.add_vectors(std::span(ids).first(2), vectors);
  store.add_vectors(std::span(ids).subspan(2), vectors + 4);
  EXPECT_EQ(store.load_vectors(0, 2).size(), 2);
  EXPECT_EQ(store.load_vectors(1, 2).size(), 2);
  // All of the first block and one of the second: the first block goes.
  store.remove_chunks({ids[2], ids[0], ids[1]});
  EXPECT_EQ(store.chunks(), 1);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM vectors"), 1);
  EXPECT_ERROR(store.remove_chunks({0}), "is damaged: chunk 0 has no vector");
}

TEST(IndexStore, LinksAreFollowedAndFoldersNamed) {
  const test::TemporaryFolder folder;
  const auto target = folder / "target.heed-index";
  const auto link = folder / "link.heed-index";
  std::filesystem::create_symlink("target.heed-index", link);  // to nothing yet
  IndexStore::create(link, settings_of_two()).seal();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(target)));
  EXPECT_TRUE(IndexStore::open(link, false).sealed());
  const auto nowhere = folder / "no" / "a.heed-index";
  EXPECT_ERROR(IndexStore::create(nowhere, settings_of_two()),
               nowhere.native() + ": cannot be written: No such file or directory");
  const auto names = std::distance(std::filesystem::directory_iterator(folder.path()), {});
  EXPECT_EQ(names, 2);
}

TEST(IndexStore, WhatSqliteCannotWriteIsSaid) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.heed-index";
  IndexStore::create(path, settings_of_two());
  EXPECT_ERROR(IndexStore::open(path, true)
                   .database()
                   .execute("PRAGMA max_page_count = 1; CREATE TABLE t AS SELECT zeroblob(100000)"),
               path.native() + ": cannot be written: No space left on device");
  EXPECT_ERROR(Database(path, Database::Mode::read).execute("DELETE FROM meta"),
               path.native() + ": cannot be written: it or its folder is read-only");
}

TEST(IndexStore, VectorsMustFitTheirDimension) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.heed-index";
  for (const char* type : {"f32", "int8"}) {
    for (const char* dimension : {"1", "3", "1048576"}) {
      std::filesystem::remove(path);
      IndexSettings settings = settings_of_two();
      settings.vector_type = type;
      {
        const IndexStore store = IndexStore::create(path, settings);
        const float vectors[] = {1, 0, 0, 1};
        const int64_t ids[] = {1, 2};
        store.add_vectors(ids, vectors);
        Statement(store.database(), "UPDATE meta SET value = ? WHERE key = 'dimension'")
            .bind(std::string_view(dimension))
            .run();
      }
      const IndexStore store = IndexStore::open(path, false);
      const std::string message = test::message_of([&] { store.load_vectors(); }, ErrorKind::data);
      EXPECT_TRUE(test::message_has(message, path.native() + ": is damaged: 2 vectors of " +
                                                 dimension + " numbers do not fit"));
    }
  }
  const IndexStore store = IndexStore::open(path, true);
  store.database().execute("UPDATE vectors SET ids = x''");
  EXPECT_ERROR(store.remove_chunks({1}), "is damaged: a block of vectors has 0 bytes");
}

/// An index without documents, with `change` applied as somebody with another program would.
void make_altered(const std::filesystem::path& path, const std::string& change) {
  std::filesystem::remove(path);
  IndexStore::create(path, settings_of_two());
  {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    char* problem = nullptr;
    EXPECT_EQ(sqlite3_exec(handle, change.c_str(), nullptr, nullptr, &problem), SQLITE_OK)
        << problem;
    sqlite3_close(handle);
  }
  write_seal(Database(path, Database::Mode::write));
}

TEST(IndexStore, TablesThatHeedDoesNotMakeAreRefused) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.heed-index";
  make_altered(path, "UPDATE meta SET value = 'moved' WHERE key = 'model'");
  EXPECT_TRUE(IndexStore::open(path, false).sealed());  // the change alone is none
  const std::pair<const char*, const char*> cases[] = {
      // An endless view in place of a table, and one that takes gigabytes.
      {"DROP TABLE chunk; CREATE VIEW chunk AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT "
       "x+1 FROM c) SELECT x AS id, 1 AS file, x AS ordinal, '' AS location, 0 AS first, 1 AS "
       "last, '' AS title, 'x' AS text, 0 AS hash FROM c",
       "its view 'chunk' is not one that heed makes"},
      {"ALTER TABLE meta RENAME TO m2; CREATE VIEW meta AS SELECT key, "
       "hex(zeroblob(400000000)) AS value FROM m2",
       "its table 'm2' is not one that heed makes"},
      {"CREATE TRIGGER t AFTER INSERT ON file BEGIN DELETE FROM meta; END",
       "its trigger 't' is not one that heed makes"},
      {"CREATE INDEX i ON chunk(abs(file))", "its index 'i' is not one that heed makes"},
      {"ALTER TABLE chunk ADD COLUMN extra AS (hex(zeroblob(1000000000)))",
       "its table 'chunk' is not one that heed makes"},
      {"CREATE VIRTUAL TABLE more USING fts5(x)", "its table 'more' is not one that heed makes"},
      {"CREATE TABLE hnsw(first, neighbors, links, hash)",
       "its table 'hnsw' is not one that heed makes"},
      {"DROP TABLE lexical_docsize", "is damaged: lexical_docsize is missing"},
      {"DROP TABLE vectors", "is damaged: vectors is missing"},
  };
  for (const auto& [change, why] : cases) {
    make_altered(path, change);
    for (const bool writable : {false, true}) {
      const std::string message =
          test::message_of([&] { IndexStore::open(path, writable); }, ErrorKind::data);
      EXPECT_TRUE(test::message_has(message, path.native() + ": "));
      EXPECT_TRUE(test::message_has(message, why));
    }
  }
}

TEST(IndexStore, RowsThatContradictEachOtherAreDamage) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.heed-index";
  IndexStore::create(path, settings_of_two());
  const IndexStore store = IndexStore::open(path, true);
  StoredFile file;
  file.path = "a.txt";
  store.put_file(file);
  const std::string message = test::message_of([&] { store.put_file(file); }, ErrorKind::data);
  EXPECT_TRUE(test::message_has(message, path.native() + ": is damaged (UNIQUE constraint"));
}

/// The end of a journal that names a super-journal, as SQLite writes it.
std::string super_journal(const std::string& file) {
  const auto big_endian = [](uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(value >> shift & 0xff);
    }
    return bytes;
  };
  uint32_t sum = 0;
  for (const char c : file) {
    sum += static_cast<unsigned char>(c);
  }
  const std::string magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  std::string header =
      magic + big_endian(0) + big_endian(1) + big_endian(1) + big_endian(512) + big_endian(8192);
  header.resize(512);
  constexpr uint32_t kLockPage = 0x40000000 / 8192 + 1;
  return header + big_endian(kLockPage) + file + big_endian(static_cast<uint32_t>(file.size())) +
         big_endian(sum) + magic;
}

TEST(IndexStore, JournalsOfOthersAreRefused) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.heed-index";
  const auto link = folder / "link";
  const auto journal = std::filesystem::path(path.native() + "-journal");
  const auto victim = folder / "victim";
  IndexStore::create(path, settings_of_two()).seal();
  std::filesystem::create_symlink(path, link);
  test::write(victim, "thesis");
  const auto refused = [&](const std::filesystem::path& beside, const char* why) {
    for (const auto& index : {path, link}) {
      for (const bool writable : {false, true}) {
        const std::string message =
            test::message_of([&] { IndexStore::open(index, writable); }, ErrorKind::data);
        EXPECT_TRUE(test::message_has(message, beside.native() + ": " + why));
      }
    }
    EXPECT_EQ(test::read(victim), "thesis");
  };
  test::write(journal, super_journal(victim.native()));
  refused(journal, "is no journal of heed's");
  std::filesystem::remove(journal);
  ASSERT_EQ(mkfifo(journal.c_str(), 0600), 0);
  refused(journal, "is not a regular file");
  std::filesystem::remove(journal);
  for (const auto& target : {victim, folder / "nowhere"}) {
    std::filesystem::create_symlink(target, journal);
    refused(journal, "is not a regular file");
    std::filesystem::remove(journal);
  }
  std::filesystem::create_directory(journal);
  refused(journal, "is not a regular file");
  std::filesystem::remove(journal);
  const std::filesystem::path log = path.native() + "-wal";
  test::write(log, "");
  refused(log, "stands beside an index");
  std::filesystem::remove(log);
  EXPECT_TRUE(IndexStore::open(link, true).sealed());
}

TEST(IndexStore, AnInterruptedTransactionIsRolledBack) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.heed-index";
  const auto copy = folder / "b.heed-index";
  {
    const IndexStore store = IndexStore::create(path, settings_of_two());
    store.seal();
    store.database().execute("PRAGMA cache_size = 1");  // pages go to the file at once
    const Transaction transaction(store.database());
    store.break_seal();
    StoredFile file;
    for (int i = 0; i < 200; ++i) {
      file.path = std::to_string(i) + std::string(1000, 'x');
      store.put_file(file);
    }
    // What a process that is killed now leaves.
    std::filesystem::copy_file(path, copy);
    std::filesystem::copy_file(path.native() + "-journal", copy.native() + "-journal");
  }
  EXPECT_GT(std::filesystem::file_size(copy.native() + "-journal"), 512U);
  EXPECT_EQ(IndexStore::open(copy, false).files(), 0);
}

}  // namespace
}  // namespace heed
