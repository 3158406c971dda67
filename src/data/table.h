#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// Rows of a .jsonl, .tsv or .csv file, of which some columns are needed. CSV follows RFC 4180; a
/// tab-separated file has no quotes. A first line that holds the names of all wanted columns is a
/// header; without one the first columns are taken in the order of `columns`.
class TableReader {
 public:
  virtual ~TableReader();
  /// The wanted columns of the next row; false at the end. Throws with the line's number.
  virtual bool next(std::vector<std::string>& values) = 0;
  virtual int64_t done() const = 0;       ///< bytes so far
  virtual std::string where() const = 0;  ///< "file:line" of the last row
  virtual bool has_header() const = 0;    ///< or the columns have names in each row
};

bool is_table(const std::filesystem::path& path);
std::unique_ptr<TableReader> open_table(const std::filesystem::path& path,
                                        const std::vector<std::string>& columns);

}  // namespace heed
