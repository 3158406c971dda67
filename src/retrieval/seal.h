#pragma once

#include <filesystem>

namespace heed {

class Database;

// The seal is a checksum over the whole index file, kept in the file's second page. It is zero
// while an index is being written and set when that is finished; every later change of any byte
// shows.

constexpr int64_t kIndexApplication = 0x68656564;  // "heed"
constexpr int64_t kIndexVersion = 1;

enum class SealState { sealed, unfinished };

/// Checks a file before SQLite sees it: that it is an index of heed's, has all its pages and, where
/// it is sealed, matches its checksum. Throws kind data with what is wrong.
SealState check_index_file(const std::filesystem::path& path);

/// Makes the table of the seal; must be the first table of a new database.
void create_seal(const Database& database);
/// Within a transaction: breaks the seal before a change.
void break_seal(const Database& database);
/// Computes the checksum of the file and writes it. No transaction may be open.
void write_seal(const Database& database);

}  // namespace heed
