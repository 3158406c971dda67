#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "heed/retrieval.h"
#include "retrieval/index_store.h"
#include "retrieval/support.h"

namespace heed {
namespace {

/// Every chunk with its vector's bits, and FTS5's own view of how many rows there are.
std::multimap<std::string, std::string> content(const std::filesystem::path& path) {
  const IndexStore store = IndexStore::open(path, false);
  EXPECT_EQ(store.database().text("PRAGMA integrity_check"), "ok");
  std::map<int64_t, std::string> vectors;
  Statement blocks(store.database(), "SELECT ids, rows FROM vectors ORDER BY id");
  const auto bytes = static_cast<size_t>(store.settings().dimension) * sizeof(float);
  while (blocks.next()) {
    const auto ids = blocks.blob(0);
    for (size_t i = 0; i * 8 < ids.size(); ++i) {
      int64_t id = 0;
      std::memcpy(&id, ids.data() + i * 8, 8);
      if (id != 0) {
        const auto* row = reinterpret_cast<const char*>(blocks.blob(1).data()) + i * bytes;
        EXPECT_TRUE(vectors.emplace(id, std::string(row, bytes)).second) << "a vector is doubled";
      }
    }
  }
  std::multimap<std::string, std::string> rows;
  Statement get(store.database(),
                "SELECT chunk.id, name || '|' || ordinal || '|' || location || '|' || text FROM "
                "chunk JOIN file ON file.id = file WHERE complete");
  while (get.next()) {
    EXPECT_TRUE(vectors.contains(get.integer(0))) << "a vector is lost";
    rows.emplace(std::string(get.text(1)), vectors[get.integer(0)]);
  }
  EXPECT_EQ(rows.size(), vectors.size());
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM lexical_docsize"),
            static_cast<int64_t>(rows.size()));
  return rows;
}

TEST(KilledIndex, ResumesAfterFiftyKillsWithoutLossOrDouble) {
  const test::TemporaryFolder folder;
  const std::filesystem::path encoder = test::make_encoder(folder / "encoder");
  const std::filesystem::path docs = folder / "docs";
  std::string rows;
  for (int i = 0; i < 4000; ++i) {
    rows += "{\"text\":\"the city " + std::to_string(i) + " is long. its people live here " +
            std::to_string(i * 17 % 1009) + ".\"}\n";
  }
  test::write(docs / "rows.jsonl", rows);
  for (int i = 0; i < 200; ++i) {
    test::write(docs / ("note" + std::to_string(i) + ".txt"),
                "note " + std::to_string(i) + ". 역사를 배운다. 도시는 길다.");
  }
  IndexOptions options;
  options.model = encoder;
  const std::filesystem::path whole = folder / "whole.heed-index";
  const std::filesystem::path killed = folder / "killed.heed-index";
  build_index({docs.native()}, whole, options);
  const std::vector<std::string> command = {
      test::program().native(), "index",   docs.native(), "--model", encoder, "--out",
      killed.native(),          "--quiet", "--threads",   "1"};
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  std::mt19937 random(11);
  int finished = 0;
  for (int kill_number = 0; kill_number < 50; ++kill_number) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 300));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << "heed index failed";
    if (WIFEXITED(status)) {  // done before it was killed: begin again with a changed file
      ++finished;
      std::filesystem::remove(killed);
    }
  }
  const IndexReport report = build_index({docs.native()}, killed, options);
  EXPECT_FALSE(report.cancelled);
  EXPECT_EQ(content(killed), content(whole));
  EXPECT_TRUE(SearchIndex::open(killed).info().complete);
  EXPECT_LT(finished, 50) << "no run was killed";
}

}  // namespace
}  // namespace heed
