#include "data/table.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "data/block_reader.h"
#include "heed/io.h"

namespace heed {
namespace {

using Row = std::vector<std::string>;

class JsonLines final : public TableReader {
 public:
  JsonLines(const std::filesystem::path& path, const Row& columns)
      : lines_(path), columns_(columns) {}

  bool next(Row& values) override {
    std::string_view line;
    do {
      if (!lines_.next(line)) {
        return false;
      }
    } while (line.find_first_not_of(" \t") == std::string_view::npos);
    const Json object = Json::parse(line, where());
    values.clear();
    for (const std::string& column : columns_) {
      const Json value = object.at(column);
      values.push_back(value.is_string() ? value.string() : value.dump());
    }
    return true;
  }
  int64_t done() const override { return lines_.done(); }
  std::string where() const override { return lines_.where(); }
  bool has_header() const override { return true; }

 private:
  LineReader lines_;
  Row columns_;
};

// Each takes 32 bytes and more: a long row of delimiters alone would take gigabytes.
constexpr size_t kMostColumns = size_t{1} << 20;

[[noreturn]] void refuse_columns(const std::string& where) {
  fail(ErrorKind::data, where, "the row has more than {} columns", kMostColumns);
}

bool next_nonempty(LineReader& lines, std::string_view& line) {
  do {
    if (!lines.next(line)) {
      return false;
    }
  } while (line.empty());
  return true;
}

/// Splits a row at tabs.
class TabRows {
 public:
  explicit TabRows(const std::filesystem::path& path) : lines_(path) {}
  bool next(Row& row) {
    std::string_view line;
    if (!next_nonempty(lines_, line)) {
      return false;
    }
    row.clear();
    for (size_t end = line.find('\t'); end != std::string_view::npos; end = line.find('\t')) {
      row.emplace_back(line.substr(0, end));
      if (row.size() > kMostColumns) {
        refuse_columns(lines_.where());
      }
      line.remove_prefix(end + 1);
    }
    row.emplace_back(line);
    return true;
  }
  int64_t done() const { return lines_.done(); }
  std::string where() const { return lines_.where(); }

 private:
  LineReader lines_;
};

/// RFC 4180: fields may stand in quotes, which are doubled inside; a quoted field may have commas
/// and line ends.
class CommaRows {
 public:
  explicit CommaRows(const std::filesystem::path& path) : lines_(path) {}

  bool next(Row& row) {
    std::string_view line;
    if (!next_nonempty(lines_, line)) {
      return false;
    }
    first_ = lines_.where();
    row.clear();
    bool more = true;
    while (more) {
      row.emplace_back();
      if (row.size() > kMostColumns) {
        refuse_columns(first_);
      }
      more = line.starts_with('"') ? quoted(line, row.back()) : plain(line, row.back());
    }
    return true;
  }
  int64_t done() const { return lines_.done(); }
  std::string where() const { return first_; }

 private:
  static constexpr size_t kLongestField = size_t{16} << 20;

  /// Takes a field and the comma after it; true where there was one.
  bool plain(std::string_view& line, std::string& field) {
    const size_t end = line.find(',');
    field = line.substr(0, end);
    check_data(field.find('"') == std::string::npos, lines_.where(),
               "a quote stands inside a field that does not begin with one");
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    return end != std::string_view::npos;
  }

  bool quoted(std::string_view& line, std::string& field) {
    line.remove_prefix(1);
    for (;;) {
      const size_t quote = line.find('"');
      field += line.substr(0, quote);
      if (quote == std::string_view::npos) {
        field += '\n';
        check_data(field.size() <= kLongestField && lines_.next(line), first_,
                   "a quoted field does not end");
        continue;
      }
      line.remove_prefix(quote + 1);
      if (!line.starts_with('"')) {
        break;
      }
      field += '"';
      line.remove_prefix(1);
    }
    check_data(line.empty() || line.starts_with(','), lines_.where(),
               "something stands between a closing quote and the next comma");
    const bool more = !line.empty();
    line.remove_prefix(more ? 1 : 0);
    return more;
  }

  LineReader lines_;
  std::string first_;
};

template <class Rows>
class Columns final : public TableReader {
 public:
  Columns(const std::filesystem::path& path, const Row& columns) : rows_(path), columns_(columns) {
    waiting_ = rows_.next(row_);
    for (const std::string& column : columns) {
      const auto place = std::find(row_.begin(), row_.end(), column);
      places_.push_back(static_cast<size_t>(place - row_.begin()));
    }
    header_ = waiting_ && std::count(places_.begin(), places_.end(), row_.size()) == 0;
    if (header_) {
      waiting_ = rows_.next(row_);
    } else {
      for (size_t i = 0; i < places_.size(); ++i) {
        places_[i] = i;
      }
    }
  }

  bool next(Row& values) override {
    if (!waiting_) {
      return false;
    }
    where_ = rows_.where();
    values.clear();
    for (size_t i = 0; i < places_.size(); ++i) {
      check_data(places_[i] < row_.size(), where_,
                 "the row has {} column{}; {} (column {}) is wanted", row_.size(),
                 row_.size() == 1 ? "" : "s", quote(columns_[i]), places_[i] + 1);
      const std::string& value = row_[places_[i]];
      check_data(value.size() <= kLongestValue, where_, "{} has {} bytes; at most {} are supported",
                 quote(columns_[i]), value.size(), kLongestValue);
      values.push_back(value);
    }
    waiting_ = rows_.next(row_);
    return true;
  }
  int64_t done() const override { return rows_.done(); }
  std::string where() const override { return where_; }
  bool has_header() const override { return header_; }

 private:
  static constexpr size_t kLongestValue = size_t{8} << 20;  // as of a string in JSON

  Rows rows_;
  Row columns_;
  Row row_;  // read ahead
  std::vector<size_t> places_;
  std::string where_;
  bool waiting_ = false;
  bool header_ = false;
};

}  // namespace

TableReader::~TableReader() = default;

namespace {
/// Of a table that may be gzipped.
std::string kind_of(const std::filesystem::path& path) {
  return (path.extension() == ".gz" ? path.stem() : path).extension().string();
}
}  // namespace

bool is_table(const std::filesystem::path& path) {
  const std::string extension = kind_of(path);
  return extension == ".jsonl" || extension == ".tsv" || extension == ".csv";
}

std::unique_ptr<TableReader> open_table(const std::filesystem::path& path, const Row& columns) {
  const std::string extension = kind_of(path);
  if (extension == ".jsonl") {
    return std::make_unique<JsonLines>(path, columns);
  }
  if (extension == ".csv") {
    return std::make_unique<Columns<CommaRows>>(path, columns);
  }
  return std::make_unique<Columns<TabRows>>(path, columns);
}

}  // namespace heed
