#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace heed {

class Database;

/// A pointer that a statement hands to one of SQLite's functions; `type` names what it points to.
struct SqlPointer {
  void* value = nullptr;
  const char* type = nullptr;
};

/// A prepared SQL statement. Parameters and columns count from 0. Errors name the file.
class Statement {
 public:
  Statement(const Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Values for the parameters, in order, after a reset. Text and blobs are not copied: they must
  /// live until the next bind() or the statement's end.
  template <class... Values>
  Statement& bind(const Values&... values) {
    reset();
    int at = 0;
    (bind_one(at++, values), ...);
    return *this;
  }

  /// Steps to the next row; false at the end.
  bool next();
  /// Runs a statement that gives no rows.
  void run();
  void reset();

  int64_t integer(int column) const;
  double real(int column) const;
  std::string_view text(int column) const;  ///< valid until the next step
  std::span<const std::byte> blob(int column) const;

 private:
  void bind_one(int at, int64_t value);
  void bind_one(int at, std::string_view value);
  void bind_one(int at, std::span<const std::byte> value);
  void bind_one(int at, const SqlPointer& value);

  const Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

/// An open SQLite file. One thread at a time.
class Database {
 public:
  enum class Mode { read, write, create };
  Database(const std::filesystem::path& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql) const;
  /// The first column of the first row; an error where there is none.
  int64_t integer(const std::string& sql) const;
  std::string text(const std::string& sql) const;

  int64_t last_row_id() const;
  /// The database as the bytes of a file.
  std::string bytes() const;
  sqlite3* handle() const { return handle_; }
  const std::filesystem::path& path() const { return path_; }
  /// Throws what was wrong with the last call.
  [[noreturn]] void refuse() const;

 private:
  std::filesystem::path path_;
  sqlite3* handle_ = nullptr;
};

/// A write transaction: rolled back unless commit() was called.
class Transaction {
 public:
  explicit Transaction(const Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Database& database_;
  bool open_ = true;
};

}  // namespace heed
