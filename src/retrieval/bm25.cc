#include "retrieval/bm25.h"

#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "base/check.h"

namespace heed {
namespace {

constexpr const char* kPointerType = "heed_bm25";

void remember_length(Bm25Table& table, int64_t row, int length) {
  constexpr int64_t kMost = int64_t{1} << 28;  // rowids of a damaged file may be anything
  if (row < 0 || row >= kMost) {
    return;
  }
  const auto at = static_cast<size_t>(row);
  if (at >= table.lengths.size()) {
    table.lengths.resize(std::max(at + 1, 2 * table.lengths.size()), -1);
  }
  table.lengths[at] = length;
}

int length_of_row(const Fts5ExtensionApi* api, Fts5Context* context, Bm25Table& table,
                  int* length) {
  const sqlite3_int64 row = api->xRowid(context);
  if (row >= 0 && row < static_cast<int64_t>(table.lengths.size())) {
    *length = table.lengths[static_cast<size_t>(row)];
    if (*length >= 0) {
      return SQLITE_OK;
    }
  }
  const int code = api->xColumnSize(context, -1, length);
  if (code == SQLITE_OK) {
    remember_length(table, row, *length);
  }
  return code;
}

int look_up_table(const Fts5ExtensionApi* api, Fts5Context* context, Bm25Table& table) {
  sqlite3_int64 rows = 0, terms = 0;
  int code = api->xRowCount(context, &rows);
  if (code == SQLITE_OK) {
    code = api->xColumnTotalSize(context, -1, &terms);
  }
  if (code == SQLITE_OK) {
    table.rows = std::max<int64_t>(rows, 1);
    table.mean_length = static_cast<double>(terms) / static_cast<double>(table.rows);
  }
  return code;
}

int score_row(const Fts5ExtensionApi* api, Fts5Context* context, const Bm25Query& query,
              double* score) {
  Bm25Table& table = *query.table;
  int code = table.rows > 0 ? SQLITE_OK : look_up_table(api, context, table);
  int length = 0;
  if (code == SQLITE_OK) {
    code = length_of_row(api, context, table, &length);
  }
  const double relative = static_cast<double>(length) / table.mean_length;
  const double norm = kBm25K1 * (1.0 - kBm25B + kBm25B * relative);
  const size_t phrases =
      std::min(query.idf.size(), static_cast<size_t>(api->xPhraseCount(context)));
  for (size_t i = 0; code == SQLITE_OK && i < phrases; ++i) {
    Fts5PhraseIter at{};
    int column = 0, offset = 0;
    double frequency = 0.0;
    code = api->xPhraseFirst(context, static_cast<int>(i), &at, &column, &offset);
    for (; code == SQLITE_OK && column >= 0; api->xPhraseNext(context, &at, &column, &offset)) {
      frequency += 1.0;
    }
    *score += query.idf[i] * (frequency * (kBm25K1 + 1.0)) / (frequency + norm);
  }
  return code;
}

void bm25(const Fts5ExtensionApi* api, Fts5Context* context, sqlite3_context* result, int count,
          sqlite3_value** arguments) {
  const auto* query =
      count == 1 ? static_cast<Bm25Query*>(sqlite3_value_pointer(arguments[0], kPointerType))
                 : nullptr;
  double score = 0.0;
  int code = query == nullptr ? SQLITE_MISUSE : SQLITE_NOMEM;
  if (query != nullptr) {
    try {
      code = score_row(api, context, *query, &score);
    } catch (const std::bad_alloc&) {  // must not pass through SQLite's code
    }
  }
  if (code == SQLITE_OK) {
    sqlite3_result_double(result, score);
  } else {
    sqlite3_result_error_code(result, code);
  }
}

}  // namespace

double bm25_idf(int64_t rows, int64_t with) {
  constexpr double kLeast = 1e-6;  // where more than half of the rows have the term
  const double idf =
      std::log((static_cast<double>(rows - with) + 0.5) / (static_cast<double>(with) + 0.5));
  return idf > 0.0 ? idf : kLeast;
}

void register_bm25(const Database& database) {
  fts5_api* api = nullptr;
  Statement ask(database, "SELECT fts5(?)");
  ask.bind(SqlPointer{static_cast<void*>(&api), "fts5_api_ptr"}).run();
  check(api != nullptr, "index", "this SQLite has no FTS5");
  const int code = api->xCreateFunction(api, "heed_bm25", nullptr, bm25, nullptr);
  check(code == SQLITE_OK, "index", "heed_bm25 cannot be added: {}", sqlite3_errstr(code));
}

SqlPointer bm25_argument(Bm25Query& query) { return {static_cast<void*>(&query), kPointerType}; }

}  // namespace heed
