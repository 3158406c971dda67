#include "retrieval/lexical.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "retrieval/index_store.h"
#include "retrieval/support.h"

namespace heed {
namespace {

/// An index of random words, some of them in nearly every chunk, without vectors.
class Words : public testing::Test {
 protected:
  static constexpr int64_t kChunks = 3000;

  Words() : store_(IndexStore::create(folder_ / "words.heed-index", settings())) {
    Transaction transaction(store_.database());
    StoredFile document;
    document.path = document.name = "words";
    const int64_t file = store_.put_file(document);
    for (int64_t i = 0; i < kChunks; ++i) {
      Chunk chunk;
      chunk.title = word();
      const size_t words = 5 + random_() % 40;
      for (size_t at = 0; at < words; ++at) {
        chunk.text += word() + " ";
      }
      store_.add_chunk(file, i, chunk);
    }
    transaction.commit();
  }

  static IndexSettings settings() {
    IndexSettings settings;
    settings.model = "none";
    settings.dimension = 1;
    return settings;
  }

  /// Word n of 400 comes about 1/n times as often as the first.
  std::string word() {
    const double share = static_cast<double>(random_()) / static_cast<double>(std::mt19937::max());
    return "w" + std::to_string(static_cast<int>(std::exp(share * std::log(400.0))));
  }

  /// What FTS5's own function gives.
  std::vector<VectorHit> expected(const std::vector<std::string>& terms, int64_t count) {
    std::string expression;
    for (const std::string& term : terms) {
      expression += (expression.empty() ? "\"" : " OR \"") + term + "\"";
    }
    Statement find(store_.database(),
                   "SELECT rowid, -bm25(lexical) AS score FROM lexical WHERE lexical MATCH ? "
                   "ORDER BY score DESC, rowid LIMIT ?");
    find.bind(std::string_view(expression), count);
    std::vector<VectorHit> hits;
    while (find.next()) {
      hits.push_back({find.integer(0), static_cast<float>(find.real(1))});
    }
    return hits;
  }

  void compare(LexicalSearch& search, const std::vector<std::string>& terms, int64_t count) {
    const std::vector<VectorHit> found = search.search(terms, count);
    const std::vector<VectorHit> wanted = expected(terms, count);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      // The order of chunks whose scores differ by rounding alone may be another.
      EXPECT_NEAR(found[i].score, wanted[i].score, 1e-5 * std::max(1.0F, wanted[i].score)) << i;
    }
    for (size_t i = 0; i + 1 < found.size(); ++i) {
      const bool clear = (i == 0 || wanted[i - 1].score - wanted[i].score > 1e-4) &&
                         wanted[i].score - wanted[i + 1].score > 1e-4;
      EXPECT_TRUE(!clear || found[i].chunk == wanted[i].chunk) << i;
    }
  }

  std::mt19937 random_{5};
  test::TemporaryFolder folder_;
  IndexStore store_;
};

TEST_F(Words, ScoresAreThoseOfFts5) {
  LexicalSearch search(store_.database());
  for (const int64_t count : {1, 10, 100, 5000}) {
    compare(search, {"w1"}, count);                      // in more than half of the chunks
    compare(search, {"w350"}, count);                    // rare
    compare(search, {"w1", "w2", "w3"}, count);          // common ones alone
    compare(search, {"w300", "w1", "w5", "w2"}, count);  // both: common ones are looked at last
    compare(search, {"w20", "w390", "w1", "absent"}, count);  // a word that no chunk has
  }
  for (int i = 0; i < 200; ++i) {
    std::set<std::string> terms{word(), word(), word(), word()};
    compare(search, {terms.begin(), terms.end()}, 1 + static_cast<int64_t>(random_() % 60));
  }
}

TEST_F(Words, NothingIsFoundForUnknownWords) {
  LexicalSearch search(store_.database());
  EXPECT_TRUE(search.search({}, 10).empty());
  EXPECT_TRUE(search.search({"absent"}, 10).empty());
}

TEST_F(Words, NoticesThatAnotherConnectionChangedTheIndex) {
  LexicalSearch search(store_.database());
  EXPECT_TRUE(search.search({"fresh"}, 10).empty());
  const size_t before = search.search({"w399"}, 5000).size();
  {
    const IndexStore other = IndexStore::open(folder_ / "words.heed-index", true);
    Transaction transaction(other.database());
    Chunk chunk;
    chunk.text = "fresh w399";
    other.add_chunk(1, kChunks, chunk);
    transaction.commit();
  }
  EXPECT_EQ(search.search({"fresh"}, 10).size(), 1U);
  EXPECT_EQ(search.search({"w399"}, 5000).size(), before + 1);
  compare(search, {"w399", "w1"}, 20);
}

}  // namespace
}  // namespace heed
