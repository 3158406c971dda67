#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/bm25.h"
#include "retrieval/database.h"
#include "retrieval/vectors.h"

namespace heed {

/// The distinct terms of a query, in order.
std::vector<std::string> query_terms(std::string_view query);

/// Search by words in an open index. What it learns of the index is remembered from query to query
/// and forgotten when another process has changed the file.
class LexicalSearch {
 public:
  explicit LexicalSearch(const Database& database);
  LexicalSearch(const LexicalSearch&) = delete;
  LexicalSearch& operator=(const LexicalSearch&) = delete;

  /// The `count` chunks with the highest BM25 (SQLite FTS5's, k1 = 1.2, b = 0.75) for any of the
  /// terms, best first. A single Hangul syllable also finds the words that begin with it.
  std::vector<VectorHit> search(const std::vector<std::string>& terms, int64_t count);

 private:
  /// A term, or the words that begin with it.
  struct Phrase {
    std::string text;  ///< as FTS5 writes it
    int64_t rows = 0;  ///< that have it
    double idf = 0.0;
  };
  struct Scored {
    int64_t chunk = 0;
    double score = 0.0;
  };
  using Phrases = std::vector<Phrase>;

  void forget_if_changed();
  Phrases weigh(const std::vector<std::string>& terms);
  std::vector<Scored> score(const Phrases& phrases, size_t wanted, bool both);
  std::vector<Scored> candidates(const Phrases& phrases, int64_t count);

  const Database& database_;
  int64_t version_ = -1;
  Bm25Table table_;
  std::map<std::string, int64_t> rows_with_;  ///< by phrase
};

}  // namespace heed
