// The tables of an index: settings that cannot be, and vectors that come and go.
#include "retrieval/index_store.h"

#include <gtest/gtest.h>

#include <cmath>

#include "retrieval/database.h"
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
  };
  for (const auto& [key, value, why] : cases) {
    IndexStore::create(path, settings_of_two());
    {
      const Database database(path, Database::Mode::write);
      Statement(database, "UPDATE meta SET value = ? WHERE key = ?")
          .bind(std::string_view(value), std::string_view(key))
          .run();
    }
    EXPECT_ERROR(IndexStore::open(path, false), why);
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

}  // namespace
}  // namespace heed
