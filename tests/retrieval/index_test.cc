#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "heed/ops.h"
#include "heed/retrieval.h"
#include "heed/runtime.h"
#include "retrieval/embedder.h"
#include "retrieval/index_store.h"
#include "retrieval/lexical.h"
#include "retrieval/seal.h"
#include "retrieval/support.h"
#include "retrieval/terms.h"
#include "support/error.h"
#include "support/faults.h"

namespace heed {
namespace {

/// Some documents and an encoder, in a folder of their own.
class Index : public testing::Test {
 protected:
  Index() : encoder_(test::make_encoder(folder_ / "encoder")), out_(folder_ / "test.heed-index") {
    test::write(docs() / "history.txt",
                "우리는 역사를 배운다. 도시의 역사는 길다. 사람은 미래를 안다.");
    test::write(docs() / "cats.md", "# Cats\nCats live here.\n\n## Dogs\nDogs and cats are rich.");
    std::string rows;
    for (int i = 0; i < 40; ++i) {
      rows += "{\"title\":\"row " + std::to_string(i) + "\",\"text\":\"the city " +
              std::to_string(i * i) + " is long and its people number " + std::to_string(i % 7) +
              ".\"}\n";
    }
    test::write(docs() / "rows.jsonl", rows);
  }

  std::filesystem::path docs() const { return folder_ / "docs"; }

  IndexReport build(IndexOptions options = {}) {
    if (options.model.empty()) {
      options.model = encoder_.native();
    }
    options.complain = [this](const std::string& what) { complaints_.push_back(what); };
    return build_index({docs().native()}, out_, options);
  }

  std::vector<SearchResult> search(const std::string& query, SearchMode mode, int64_t top_k = 10) {
    SearchOptions options;
    options.mode = mode;
    options.top_k = top_k;
    return SearchIndex::open(out_).search(query, options);
  }

  /// Everything an index holds that must not depend on how it came about, in order.
  static std::multiset<std::string> content(const std::filesystem::path& path) {
    const IndexStore store = IndexStore::open(path, false);
    const VectorTable vectors = store.load_vectors();
    std::multiset<std::string> rows;
    Statement get(store.database(),
                  "SELECT chunk.id, name, ordinal, location, first, last, title, text FROM chunk "
                  "JOIN file ON file.id = file");
    std::map<int64_t, std::string> chunks;
    while (get.next()) {
      std::string row;
      for (int column = 1; column < 8; ++column) {
        row += std::string(get.text(column)) + "|";
      }
      chunks[get.integer(0)] = row;
    }
    EXPECT_EQ(vectors.size(), static_cast<int64_t>(chunks.size()));
    for (const auto& [id, row] : chunks) {
      rows.insert(row);
    }
    return rows;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path encoder_;
  std::filesystem::path out_;
  std::vector<std::string> complaints_;
};

TEST_F(Index, FindsByWordsAndByMeaning) {
  const IndexReport report = build();
  EXPECT_EQ(report.files, 3);
  EXPECT_EQ(report.failed, 0);
  EXPECT_EQ(report.chunks, 43);
  std::vector<SearchResult> results = search("city 144", SearchMode::lexical, 3);
  ASSERT_FALSE(results.empty());
  EXPECT_EQ(results[0].title, "row 12");
  EXPECT_EQ(results[0].location, "row 13");
  EXPECT_NE(results[0].source.find("rows.jsonl"), std::string::npos);
  EXPECT_EQ(results[0].rank, 1);
  // A chunk's own text is closest to itself.
  results = search("Cats\nCats live here.", SearchMode::dense, 1);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].title, "Cats");
  EXPECT_NEAR(results[0].score, 1.0, 1e-5);
  results = search("Dogs", SearchMode::hybrid, 5);
  ASSERT_EQ(results.size(), 5u);
  EXPECT_EQ(results[0].title, "Cats › Dogs");
}

TEST_F(Index, KoreanQueriesOfOneTwoAndThreeSyllables) {
  build();
  for (const char* query : {"역사", "역사는", "역", "미래", "\u110b\u1167\u11a8\u1109\u1161"}) {
    const std::vector<SearchResult> results = search(query, SearchMode::lexical);
    ASSERT_EQ(results.size(), 1u) << query;
    EXPECT_NE(results[0].text.find("역사를"), std::string::npos);
    EXPECT_FALSE(query != std::string("역") && results[0].matches.empty()) << query;
  }
  EXPECT_TRUE(search("사랑", SearchMode::lexical).empty());
  EXPECT_TRUE(search("!?", SearchMode::lexical).empty());
}

/// Vectors of all chunks, computed one by one.
std::vector<std::pair<int64_t, std::vector<float>>> embed_chunks(const std::filesystem::path& index,
                                                                 const Embedder& embedder) {
  const IndexStore store = IndexStore::open(index, false);
  Statement get(store.database(), "SELECT id, title, text FROM chunk ORDER BY id");
  std::vector<std::pair<int64_t, std::vector<float>>> vectors;
  while (get.next()) {
    const std::string title(get.text(1));
    const std::string text = title + (title.empty() ? "" : "\n") + std::string(get.text(2));
    vectors.emplace_back(get.integer(0), embedder.embed(std::span(&text, 1)));
  }
  return vectors;
}

TEST_F(Index, DenseSearchEqualsBruteForce) {
  build();
  const Embedder embedder(encoder_, "", "");
  for (const std::string query : {"the city is long", "역사", "dogs live"}) {
    const std::vector<float> q = embedder.embed(std::span(&query, 1));
    std::vector<std::pair<double, int64_t>> expected;
    for (const auto& [id, vector] : embed_chunks(out_, embedder)) {
      double dot = 0.0;
      for (size_t i = 0; i < q.size(); ++i) {
        dot += double{q[i]} * vector[i];
      }
      expected.emplace_back(-dot, id);
    }
    std::sort(expected.begin(), expected.end());
    const std::vector<SearchResult> results = search(query, SearchMode::dense, 20);
    ASSERT_EQ(results.size(), 20u);
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_NEAR(results[i].score, -expected[i].first, 1e-5);
      // Equal up to the order of scores that differ by rounding alone.
      if (i + 1 < expected.size() && expected[i + 1].first - expected[i].first > 1e-5 &&
          (i == 0 || expected[i].first - expected[i - 1].first > 1e-5)) {
        EXPECT_EQ(results[i].chunk, expected[i].second);
      }
    }
  }
}

TEST_F(Index, Int8IsCloseToF32AndAQuarterOfItsSize) {
  build();
  const std::vector<SearchResult> exact = search("the city is long", SearchMode::dense, 43);
  std::filesystem::remove(out_);
  IndexOptions options;
  options.vector_type = "int8";
  build(options);
  std::map<int64_t, double> scores;
  for (const SearchResult& result : search("the city is long", SearchMode::dense, 43)) {
    scores[result.chunk] = result.score;
  }
  for (const SearchResult& result : exact) {
    EXPECT_NEAR(scores.at(result.chunk), result.score, 0.01);
  }
}

TEST_F(Index, ResultsDoNotDependOnTheNumberOfThreads) {
  build();
  const int before = thread_count();
  std::vector<std::string> seen;
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    std::string all;
    for (const SearchResult& result : search("its people", SearchMode::hybrid, 43)) {
      all += std::to_string(result.chunk) + ":" + std::to_string(result.cosine.value_or(0)) + " ";
    }
    seen.push_back(all);
  }
  set_thread_count(before);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

/// FTS5's bm25() as its documentation defines it, over the terms of the chunks.
double bm25(const std::vector<std::string>& query, const std::vector<std::string>& document,
            const std::vector<std::vector<std::string>>& all) {
  constexpr double k1 = 1.2, b = 0.75;
  double length = 0.0;
  for (const auto& each : all) {
    length += static_cast<double>(each.size());
  }
  const double mean = length / static_cast<double>(all.size());
  double score = 0.0;
  for (const std::string& term : query) {
    double with = 0.0;
    for (const auto& each : all) {
      with += std::count(each.begin(), each.end(), term) > 0 ? 1.0 : 0.0;
    }
    const double idf =
        std::max(1e-6, std::log((static_cast<double>(all.size()) - with + 0.5) / (with + 0.5)));
    const auto f = static_cast<double>(std::count(document.begin(), document.end(), term));
    score +=
        idf * f * (k1 + 1) / (f + k1 * (1 - b + b * static_cast<double>(document.size()) / mean));
  }
  return score;
}

TEST_F(Index, Bm25IsSqlitesDefinition) {
  build();
  const IndexStore store = IndexStore::open(out_, false);
  std::vector<std::vector<std::string>> documents;
  std::vector<int64_t> ids;
  Statement get(store.database(), "SELECT id, title, text FROM chunk");
  while (get.next()) {
    std::vector<std::string> terms;
    for (const int column : {1, 2}) {
      for (const Term& term : terms_of(get.text(column))) {
        terms.push_back(term.text);
      }
    }
    documents.push_back(terms);
    ids.push_back(get.integer(0));
  }
  for (const std::string text : {"number 3 row 17", "역사는", "rich dogs"}) {
    const std::vector<std::string> query = query_terms(text);
    std::map<int64_t, double> found;
    for (const VectorHit& hit : LexicalSearch(store.database()).search(query, 1000)) {
      found[hit.chunk] = hit.score;
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const double expected = bm25(query, documents[i], documents);
      EXPECT_EQ(found.contains(ids[i]), expected > 0.0);
      if (expected > 0.0) {
        EXPECT_NEAR(found[ids[i]], expected, 1e-5 * std::max(1.0, expected));
      }
    }
  }
}

TEST_F(Index, OnlyWhatChangedIsEmbeddedAgain) {
  const IndexReport first = build();
  const std::multiset<std::string> before = content(out_);
  IndexReport again = build();
  EXPECT_EQ(again.files, 0);
  EXPECT_EQ(again.unchanged, 3);
  EXPECT_EQ(again.chunks_added, 0);
  // A new date alone changes nothing.
  std::filesystem::last_write_time(docs() / "cats.md",
                                   std::filesystem::file_time_type::clock::now());
  again = build();
  EXPECT_EQ(again.unchanged, 3);
  EXPECT_EQ(again.chunks_added, 0);
  // One row of forty.
  std::string rows = test::read(docs() / "rows.jsonl");
  rows.replace(rows.find("the city 4 "), 11, "the town 4 ");
  test::write(docs() / "rows.jsonl", "\n" + rows);
  again = build();
  EXPECT_EQ(again.files, 1);
  EXPECT_EQ(again.chunks_added, 1);
  EXPECT_EQ(again.chunks_removed, 1);
  EXPECT_EQ(again.chunks, first.chunks);
  EXPECT_EQ(search("town", SearchMode::lexical).size(), 1u);
  EXPECT_EQ(search("town", SearchMode::lexical)[0].location, "row 4");
  // A file that is gone, and everything as from scratch.
  std::filesystem::remove(docs() / "cats.md");
  again = build();
  EXPECT_EQ(again.removed, 1);
  EXPECT_TRUE(search("dogs", SearchMode::lexical).empty());
  EXPECT_EQ(search("dogs", SearchMode::dense, 100).size(), 41u);
  const std::filesystem::path fresh = folder_ / "fresh.heed-index";
  IndexOptions options;
  options.model = encoder_;
  build_index({docs().native()}, fresh, options);
  EXPECT_EQ(content(out_), content(fresh));
  EXPECT_NE(content(out_), before);
}

TEST_F(Index, BadDocumentsAreNamedAndTheRestGoesOn) {
  test::write(docs() / "binary.txt", std::string("a\0b", 3));
  test::write(docs() / "empty.md", "");
  test::write(docs() / "bad.jsonl", "{\"text\":\"good row\"}\nbad row\n");
  test::write(docs() / "huge.txt", "x");
  std::filesystem::resize_file(docs() / "huge.txt", uint64_t{1} << 30);
  const IndexReport report = build();
  EXPECT_EQ(report.failed, 4);
  EXPECT_EQ(report.files, 4);
  EXPECT_EQ(report.chunks, 44);
  ASSERT_EQ(complaints_.size(), 4u);
  std::string all;
  for (const std::string& what : complaints_) {
    all += what + "\n";
  }
  for (const char* part : {"binary.txt", "empty.md", "bad.jsonl:2", "huge.txt"}) {
    EXPECT_NE(all.find(part), std::string::npos) << all;
  }
}

TEST_F(Index, OtherModelsAndSettingsAreRefused) {
  build();
  IndexOptions options;
  options.model = test::make_encoder(folder_ / "other", 2).native();
  EXPECT_ERROR(
      {
        try {
          build(options);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::usage);
          EXPECT_NE(std::string(error.what()).find("another model"), std::string::npos);
          throw;
        }
      },
      "; use that one, or make a new index");
  options = {};
  options.chunk_tokens = 50;
  try {
    build(options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("chunk_tokens 200, not 50"), std::string::npos)
        << error.what();
  }
  SearchIndex index = SearchIndex::open(out_, {.model = (folder_ / "other").native()});
  EXPECT_ERROR(index.search("x", {.mode = SearchMode::dense}),
               "; index again, or give the right model");
  EXPECT_NO_THROW(index.search("x", {.mode = SearchMode::lexical}));
}

TEST_F(Index, AModelIsTheSameInAnyTypeItComputesIn) {
  {
    const ActivationScope precision(DType::bf16);
    build();
  }
  const std::vector<SearchResult> found = search("Dogs", SearchMode::dense, 5);
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(build().chunks_added, 0);
  const ActivationScope precision(DType::bf16);
  EXPECT_EQ(search("Dogs", SearchMode::dense, 5).front().text, found.front().text);
}

TEST_F(Index, ForeignTruncatedAndAlteredFilesAreRefused) {
  build();
  const std::string good = test::read(out_);
  const auto refused = [&](const std::string& bytes, const std::string& part) {
    const std::filesystem::path bad = folder_ / "bad.heed-index";
    test::write(bad, bytes);
    test::expect_bad_file(bad, part, [](const auto& path) { SearchIndex::open(path); });
    test::expect_bad_file(bad, part, [&](const auto& path) {
      IndexOptions options;
      options.model = encoder_;
      build_index({docs().native()}, path, options);
    });
    EXPECT_EQ(test::read(bad), bytes) << "a refused file was changed";
  };
  refused("", "no index");
  refused("hello", "no index");
  refused(std::string(4096, 'x'), "no index");
  refused(good.substr(0, 90), "no index");
  refused(good.substr(0, good.size() - 1), "truncated");
  refused(good.substr(0, good.size() / 2), "truncated");
  refused(good.substr(0, 8192), "truncated");
  refused(good + "x", "checksum");
  std::string other = good;
  other[68] = 'X';  // application_id
  refused(other, "no index");
  other = good;
  other[63] = 9;  // user_version
  refused(other, "version 9");
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    std::string altered = good;
    // Not the header, whose fields have messages of their own, nor the checksum.
    const size_t at = 2 * 8192 + random() % (altered.size() - 2 * 8192);
    altered[at] = static_cast<char>(altered[at] ^ (1 << random() % 8));
    refused(altered, "checksum");
  }
  for (size_t at = 0; at < 100; ++at) {  // the header, each byte
    std::string altered = good;
    altered[at] = static_cast<char>(altered[at] ^ 0x10);
    refused(altered, "bad.heed-index");
  }
  {
    const std::filesystem::path sqlite = folder_ / "plain.sqlite";
    const Database database(sqlite, Database::Mode::create);
    database.execute("CREATE TABLE t(x)");
  }
  refused(test::read(folder_ / "plain.sqlite"), "no index of heed's");
  EXPECT_ERROR(SearchIndex::open(folder_ / "none"), "cannot be opened: No such file or directory");
  EXPECT_ERROR(SearchIndex::open(docs()), "is not a regular file");
}

TEST_F(Index, UnfinishedFilesAreCheckedToo) {
  IndexOptions options;
  int batches = 0;
  options.cancelled = [&] { return ++batches > 0; };
  EXPECT_TRUE(build(options).cancelled);
  EXPECT_FALSE(SearchIndex::open(out_).info().complete);
  // A vector's bytes change: the block's own checksum shows it.
  {
    const Database database(out_, Database::Mode::write);
    database.execute("UPDATE vectors SET rows = zeroblob(length(rows))");
  }
  test::expect_bad_file(out_, "checksum", [&](const auto& path) {
    SearchIndex::open(path).search("x", {.mode = SearchMode::dense});
  });
}

TEST_F(Index, AFileWithoutANameIsAUsageError) {
  IndexOptions options;
  options.model = encoder_.native();
  const std::string message =
      test::message_of([&] { build_index({docs().native()}, "", options); }, ErrorKind::usage);
  EXPECT_TRUE(test::message_has(message, "the index file has no name"));
}

TEST_F(Index, AnotherDimensionThanTheEncodersIsDamage) {
  build();
  {
    const Database database(out_, Database::Mode::write);
    database.execute("DELETE FROM vectors; UPDATE meta SET value = '64' WHERE key = 'dimension'");
    write_seal(database);
  }
  const std::string why = "is damaged: its vectors have 64 numbers, those of its encoder 32";
  test::expect_bad_file(out_, why, [&](const auto&) { search("x", SearchMode::dense); });
  test::expect_bad_file(out_, why, [&](const auto&) { build(); });
}

TEST_F(Index, ChunksThatMakeNoSenseMakeNoIndex) {
  IndexOptions options;
  options.chunk_tokens = 8;
  options.overlap_tokens = 8;
  EXPECT_ERROR(build(options), "8 tokens per chunk with an overlap of 8 make no sense");
  EXPECT_FALSE(std::filesystem::exists(out_));
}

}  // namespace
}  // namespace heed
