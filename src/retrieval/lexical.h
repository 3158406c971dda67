#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "retrieval/database.h"
#include "retrieval/vectors.h"

namespace heed {

/// The distinct terms of a query, in order.
std::vector<std::string> query_terms(std::string_view query);

/// The `count` chunks with the highest BM25 (SQLite FTS5's, k1 = 1.2, b = 0.75) for any of the
/// terms, best first. A single Hangul syllable also finds the words that begin with it.
std::vector<VectorHit> search_lexical(const Database& database,
                                      const std::vector<std::string>& terms, int64_t count);

}  // namespace heed
