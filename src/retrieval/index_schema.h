#pragma once

namespace heed {

class Database;

/// Makes the tables of an empty index, the seal's first.
void create_tables(const Database& database);
/// Makes the table of the HNSW graph, which not every index has.
void create_graph_table(const Database& database);

/// Compares what a file defines with what the functions above make of an empty one. A file of
/// somebody else's could have a view in place of a table, which never ends or takes gigabytes, a
/// trigger, or a column with an expression. Throws kind data with what is missing or not heed's.
void check_tables(const Database& database);

}  // namespace heed
