#include "retrieval/database.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"

namespace heed {
namespace {

constexpr int kPatience = 10'000;        // milliseconds to wait for another process's lock
constexpr int kLongestValue = 64 << 20;  // bytes; a block of vectors or links has a few million

/// Whether SQLite's code says that the file is bad, and not the machine. All statements are heed's
/// own, so that a general error, a violated constraint or a value beyond what heed writes comes of
/// tables that are not what heed made (FTS5's own, too).
bool is_data_error(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_FORMAT ||
         primary == SQLITE_ERROR || primary == SQLITE_CONSTRAINT || primary == SQLITE_TOOBIG;
}

}  // namespace

Statement::Statement(const Database& database, std::string_view sql) : database_(database) {
  if (sqlite3_prepare_v3(database.handle(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) != SQLITE_OK) {
    database.refuse();
  }
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::bind_one(int at, int64_t value) {
  if (sqlite3_bind_int64(statement_, at + 1, value) != SQLITE_OK) {
    database_.refuse();
  }
}

void Statement::bind_one(int at, std::string_view value) {
  if (sqlite3_bind_text64(statement_, at + 1, value.data() == nullptr ? "" : value.data(),
                          value.size(), SQLITE_STATIC, SQLITE_UTF8) != SQLITE_OK) {
    database_.refuse();
  }
}

void Statement::bind_one(int at, std::span<const std::byte> value) {
  if (sqlite3_bind_blob64(statement_, at + 1,
                          value.empty() ? "" : static_cast<const void*>(value.data()), value.size(),
                          SQLITE_STATIC) != SQLITE_OK) {
    database_.refuse();
  }
}

void Statement::bind_one(int at, const SqlPointer& value) {
  if (sqlite3_bind_pointer(statement_, at + 1, value.value, value.type, nullptr) != SQLITE_OK) {
    database_.refuse();
  }
}

bool Statement::next() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    database_.refuse();
  }
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (next()) {
  }
  reset();
}

void Statement::reset() { sqlite3_reset(statement_); }

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text == nullptr ? std::string_view()
                         : std::string_view(
                               text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

std::span<const std::byte> Statement::blob(int column) const {
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
  return {bytes,
          bytes == nullptr ? 0 : static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

Database::Database(const std::filesystem::path& path, Mode mode) : path_(path) {
  const int flags = mode == Mode::create  ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                    : mode == Mode::write ? SQLITE_OPEN_READWRITE
                                          : SQLITE_OPEN_READONLY;
  const int code = sqlite3_open_v2(path.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    const std::string message = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
    sqlite3_close(handle_);
    fail(ErrorKind::runtime, path.native(), "cannot be opened: {}", message);
  }
  sqlite3_busy_timeout(handle_, kPatience);
  // An untrusted file must not run code: no functions from its schema, no broken schema accepted,
  // no views or triggers, of which heed has none.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kLongestValue);
  execute("PRAGMA cell_size_check = ON");
}

Database::~Database() { sqlite3_close_v2(handle_); }

void Database::refuse() const {
  const int code = sqlite3_extended_errcode(handle_);
  const int primary = code & 0xff;
  if (is_data_error(code)) {
    fail(ErrorKind::data, path_.native(), "is damaged ({}); make it again with `heed index`",
         sqlite3_errmsg(handle_));
  }
  if (primary == SQLITE_BUSY) {
    fail(ErrorKind::runtime, path_.native(),
         "another process is writing to it; wait until that `heed index` has ended");
  }
  if (primary == SQLITE_READONLY) {
    fail(ErrorKind::runtime, path_.native(), "cannot be written: it or its folder is read-only");
  }
  if (primary == SQLITE_FULL) {
    fail(ErrorKind::runtime, path_.native(), "cannot be written: {}", std::strerror(ENOSPC));
  }
  const int problem = sqlite3_system_errno(handle_);
  if (problem != 0 && primary == SQLITE_CANTOPEN) {
    fail(ErrorKind::runtime, path_.native(), "cannot be opened with a journal beside it: {}",
         std::strerror(problem));
  }
  if (problem != 0 && primary == SQLITE_IOERR) {
    fail(ErrorKind::runtime, path_.native(), "cannot be read or written: {}",
         std::strerror(problem));
  }
  fail(ErrorKind::runtime, path_.native(), "{}", sqlite3_errmsg(handle_));
}

void Database::execute(const std::string& sql) const {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    refuse();
  }
}

int64_t Database::integer(const std::string& sql) const {
  Statement statement(*this, sql);
  check_data(statement.next(), path_.native(), "lacks an entry of every index; make it again");
  return statement.integer(0);
}

std::string Database::text(const std::string& sql) const {
  Statement statement(*this, sql);
  check_data(statement.next(), path_.native(), "lacks an entry of every index; make it again");
  return std::string(statement.text(0));
}

std::string Database::bytes() const {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> copy(
      sqlite3_serialize(handle_, "main", &size, 0), sqlite3_free);
  if (copy == nullptr) {
    throw std::bad_alloc();
  }
  return {reinterpret_cast<const char*>(copy.get()), static_cast<size_t>(size)};
}

int64_t Database::last_row_id() const { return sqlite3_last_insert_rowid(handle_); }

Transaction::Transaction(const Database& database) : database_(database) {
  database.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (open_) {
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace heed
