#include "retrieval/index_schema.h"

#include <set>
#include <string>

#include "base/check.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "retrieval/database.h"
#include "retrieval/seal.h"

namespace heed {
namespace {

constexpr const char* kSchema = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE file(id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, name TEXT NOT NULL,
  size INTEGER NOT NULL, modified INTEGER NOT NULL, hash INTEGER NOT NULL, complete INTEGER NOT NULL);
CREATE TABLE chunk(id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL REFERENCES file(id),
  ordinal INTEGER NOT NULL, location TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  title TEXT NOT NULL, text TEXT NOT NULL, hash INTEGER NOT NULL);
CREATE INDEX chunk_of_file ON chunk(file);
CREATE TABLE vectors(id INTEGER PRIMARY KEY, ids BLOB NOT NULL, scales BLOB NOT NULL,
  rows BLOB NOT NULL, hash INTEGER NOT NULL);
CREATE VIRTUAL TABLE lexical USING fts5(title, body, content='',
  tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co M*'");
)sql";

constexpr const char* kGraph =
    "CREATE TABLE hnsw(first INTEGER PRIMARY KEY, neighbors INTEGER NOT NULL, links BLOB NOT NULL, "
    "hash INTEGER NOT NULL)";

/// A table or index as sqlite_schema has it.
struct Definition {
  std::string type, name, table, sql;
  // NOLINTNEXTLINE(modernize-use-nullptr): it takes the 0 inside <=> for a pointer
  auto operator<=>(const Definition&) const = default;
};

template <class Visit>
void for_each_definition(const Database& database, const Visit& visit) {
  Statement get(database, "SELECT type, name, tbl_name, sql FROM sqlite_schema");
  while (get.next()) {
    visit(Definition{std::string(get.text(0)), std::string(get.text(1)), std::string(get.text(2)),
                     std::string(get.text(3))});
  }
}

/// What an index has: heed's own tables, and those that SQLite and FTS5 keep for them.
std::set<Definition> definitions_of_an_index() {
  const Database database(":memory:", Database::Mode::create);
  create_tables(database);
  std::set<Definition> result;
  for_each_definition(database, [&](const Definition& each) { result.insert(each); });
  return result;
}

}  // namespace

void create_tables(const Database& database) {
  create_seal(database);
  database.execute(kSchema);
}

void create_graph_table(const Database& database) { database.execute(kGraph); }

void check_tables(const Database& database) {
  static const std::set<Definition> wanted = definitions_of_an_index();
  const Definition graph{"table", "hnsw", "hnsw", kGraph};
  const std::string& file = database.path().native();
  std::set<Definition> found;
  for_each_definition(database, [&](const Definition& each) {
    check_data((wanted.contains(each) || each == graph) && found.insert(each).second, file,
               "is no index of heed's: its {} {} is not one that heed makes; make the index again",
               printable(each.type, 20), quote(each.name));
  });
  for (const Definition& each : wanted) {
    check_data(found.contains(each), file,
               "is damaged: {} is missing; make it again with `heed index`", each.name);
  }
}

}  // namespace heed
