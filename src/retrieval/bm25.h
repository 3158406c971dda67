#pragma once

#include <cstdint>
#include <vector>

#include "retrieval/database.h"

namespace heed {

/// What BM25 knows of a table, looked up once and remembered.
struct Bm25Table {
  int64_t rows = 0;  ///< 0: not looked up yet
  double mean_length = 1.0;
  std::vector<int> lengths;  ///< in terms, by rowid; -1: not looked up yet
};

/// A query for heed_bm25(): one weight for each of its first phrases; the others do not count.
struct Bm25Query {
  Bm25Table* table = nullptr;
  std::vector<double> idf;
};

constexpr double kBm25K1 = 1.2, kBm25B = 0.75;

/// FTS5's weight of a term that `with` of `rows` rows have.
double bm25_idf(int64_t rows, int64_t with);

/// Adds the FTS5 function heed_bm25(TABLE, QUERY) to a connection; QUERY is bound as
/// bm25_argument(). Its value is that of FTS5's own bm25(TABLE) with the other sign: higher is
/// better. FTS5's looks up the length of every row that it scores, which takes nine tenths of its
/// time.
void register_bm25(const Database& database);
SqlPointer bm25_argument(Bm25Query& query);

}  // namespace heed
