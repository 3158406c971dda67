#include "retrieval/documents.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/check.h"
#include "base/file.h"
#include "base/folder_entries.h"
#include "base/language.h"
#include "base/utf8.h"
#include "data/block_reader.h"
#include "data/table.h"
#include "heed/io.h"
#include "retrieval/pdf.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Complain = std::function<void(const std::string&)>;
using Visit = std::function<void(Section)>;

constexpr std::array<std::string_view, 5> kTextFields = {"text", "contents", "content", "body",
                                                         "passage"};

std::string lower_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

/// The whole of a text file, checked: not empty, not binary, UTF-8 without its byte order mark.
std::string read_text(const fs::path& path, const DocumentLimits& limits) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  check_data(!error, path.native(), "cannot be read: {}", error.message());
  check_data(size <= limits.max_bytes, path.native(),
             "has {} MB; the limit is {} MB: raise it, split the file, or give it as .jsonl",
             size >> 20, limits.max_bytes >> 20);
  std::string text = read_file(path, static_cast<uint64_t>(limits.max_bytes));
  check_data(text.find('\0') == std::string::npos, path.native(),
             "is a binary file, no text (byte {} is zero)", text.find('\0') + 1);
  if (text.starts_with(kByteOrderMark)) {
    text.erase(0, kByteOrderMark.size());
  }
  check_data(!is_blank(text), path.native(), "is empty");
  if (!is_valid_utf8(text)) {
    size_t at = 0;
    while (const size_t bytes = utf8_sequence(std::string_view(text).substr(at))) {
      at += bytes;
    }
    fail(ErrorKind::data, path.native(),
         "byte {} is not UTF-8; convert it first (for Korean: iconv -f CP949 -t UTF-8)", at + 1);
  }
  return text;
}

Section row_section(const Json& row) {
  Section section;
  for (const std::string_view field : kTextFields) {
    if (const auto value = row.find(field); value && value->is_string()) {
      section.text = value->string();
      break;
    }
  }
  if (const auto title = row.find("title"); title && title->is_string()) {
    section.title = title->string();
  }
  if (is_blank(section.text)) {
    row.refuse(say("has no text; a field `text` (or contents, content, body, passage) is wanted"));
  }
  return section;
}

/// Calls `read` with every line; a line that cannot be read is named and left out.
template <class Read>
int64_t for_each_row(const fs::path& path, const Complain& complain, const Read& read) {
  LineReader lines(path);
  int64_t bad = 0;
  for (std::string_view line;;) {
    const int64_t before = lines.line();
    try {
      if (!lines.next(line)) {
        return bad;
      }
      if (!is_blank(line)) {
        read(line, lines);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data || lines.line() == before) {
        throw;  // the line has no end: there is no next one
      }
      ++bad;
      complain(error.what());
    }
  }
}

int64_t read_json_lines(const fs::path& path, const Visit& visit, const Complain& complain) {
  return for_each_row(path, complain, [&](std::string_view line, const LineReader& lines) {
    Section section = row_section(Json::parse(line, lines.where()));
    section.location = fmt::format("row {}", lines.line());
    visit(std::move(section));
  });
}

/// The cells of a row of `where`.
std::vector<std::string> split_tabs(std::string_view line, const std::string& where) {
  constexpr int64_t kMostCells = 4096;
  const int64_t tabs = std::count(line.begin(), line.end(), '\t');
  check_data(tabs < kMostCells, where, "the row has {} columns; at most {} are read", tabs + 1,
             kMostCells);
  std::vector<std::string> cells;
  for (size_t tab; (tab = line.find('\t')) != std::string_view::npos; line.remove_prefix(tab + 1)) {
    cells.emplace_back(line.substr(0, tab));
  }
  cells.emplace_back(line);
  return cells;
}

/// Which cells of a table's rows are text and title, from its first row.
struct Columns {
  bool header = false;
  size_t text = SIZE_MAX, title = SIZE_MAX;

  explicit Columns(const std::vector<std::string>& first) {
    for (const std::string_view field : kTextFields) {
      const auto found = std::find(first.begin(), first.end(), field);
      if (text == SIZE_MAX && found != first.end()) {
        text = static_cast<size_t>(found - first.begin());
        header = true;
      }
    }
    const auto found = std::find(first.begin(), first.end(), "title");
    if (header && found != first.end()) {
      title = static_cast<size_t>(found - first.begin());
    }
  }

  /// Without a header all cells are text.
  Section section(const std::vector<std::string>& cells, const std::string& where) const {
    Section result;
    if (!header) {
      result.text = fmt::format("{}", fmt::join(cells, "\n"));
    } else {
      check_data(text < cells.size(), where, "the row has {} columns; the text is column {}",
                 cells.size(), text + 1);
      result.text = cells[text];
      result.title = title < cells.size() ? cells[title] : "";
    }
    return result;
  }
};

int64_t read_tabs(const fs::path& path, const Visit& visit, const Complain& complain) {
  std::optional<Columns> columns;
  return for_each_row(path, complain, [&](std::string_view line, const LineReader& lines) {
    const std::vector<std::string> cells = split_tabs(line, lines.where());
    if (!columns) {
      columns.emplace(cells);
      if (columns->header) {
        return;
      }
    }
    Section section = columns->section(cells, lines.where());
    section.location = fmt::format("row {}", lines.line());
    if (!is_blank(section.text)) {
      visit(std::move(section));
    }
  });
}

int64_t read_commas(const fs::path& path, const Visit& visit) {
  // The first row, to see what the columns are; cells in quotes do not matter for their names.
  std::vector<std::string> first;
  {
    LineReader lines(path);
    std::string_view line;
    while (lines.next(line) && is_blank(line)) {
    }
    std::string names(line);
    std::erase(names, '"');
    std::replace(names.begin(), names.end(), ',', '\t');
    first = split_tabs(names, lines.where());
  }
  const Columns columns(first);
  std::vector<std::string> wanted;
  if (columns.header) {
    wanted = {first[columns.text]};
    if (columns.title != SIZE_MAX) {
      wanted.emplace_back("title");
    }
  } else {
    for (size_t i = 0; i < first.size(); ++i) {
      wanted.push_back(fmt::format("\x01{}", i));  // no header has this name: by position
    }
  }
  const auto table = open_table(path, wanted);
  int64_t row = 0;
  for (std::vector<std::string> cells; table->next(cells); ++row) {
    Section section;
    if (columns.header) {
      section = {cells.size() > 1 ? cells[1] : "", cells[0], ""};
    } else {
      section.text = fmt::format("{}", fmt::join(cells, "\n"));
    }
    section.location = fmt::format("row {}", row + 1 + (columns.header ? 1 : 0));
    if (!is_blank(section.text)) {
      visit(std::move(section));
    }
  }
  return 0;
}

int64_t read_table(const fs::path& path, const Visit& visit, const Complain& complain) {
  const std::string extension = lower_extension(path);
  int64_t rows = 0;
  const Visit count = [&](Section section) {
    ++rows;
    visit(std::move(section));
  };
  const int64_t bad = extension == ".csv"   ? read_commas(path, count)
                      : extension == ".tsv" ? read_tabs(path, count, complain)
                                            : read_json_lines(path, count, complain);
  check_data(rows > 0 || bad > 0, path.native(), "is empty: no row has text");
  return bad;
}

}  // namespace

std::string short_title(std::string title) {
  constexpr size_t kLongest = 1024;
  if (title.size() > kLongest) {
    size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(title[end]) & 0xc0) == 0x80) {
      --end;
    }
    title.resize(end);
    title += "…";
  }
  return title;
}

std::string compose_hangul(std::string text) {
  // Jamo are U+1100 to U+11FF: E1 84 80 to E1 87 BF.
  bool jamo = false;
  for (size_t at = text.find('\xe1'); at != std::string::npos && !jamo;
       at = text.find('\xe1', at + 1)) {
    jamo = at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0x84 &&
           static_cast<unsigned char>(text[at + 1]) <= 0x87;
  }
  if (!jamo) {
    return text;
  }
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size >= 0) {
    text.assign(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
    std::free(composed);
  }
  return text;
}

DocumentKind document_kind(const fs::path& path) {
  const std::string extension = lower_extension(path);
  if (extension == ".md" || extension == ".markdown") {
    return DocumentKind::markdown;
  }
  if (extension == ".html" || extension == ".htm" || extension == ".xhtml") {
    return DocumentKind::html;
  }
  if (extension == ".jsonl" || extension == ".ndjson" || extension == ".csv" ||
      extension == ".tsv") {
    return DocumentKind::table;
  }
  return extension == ".pdf" ? DocumentKind::pdf : DocumentKind::text;
}

int64_t read_document(const fs::path& path, const DocumentLimits& limits, const Visit& visit,
                      const Complain& complain) {
  const Visit composed = [&](Section section) {
    section.title = short_title(compose_hangul(std::move(section.title)));
    section.text = compose_hangul(std::move(section.text));
    visit(std::move(section));
  };
  switch (document_kind(path)) {
    case DocumentKind::table:
      return read_table(path, composed, complain);
    case DocumentKind::pdf:
      read_pdf(path, limits, composed);
      return 0;
    case DocumentKind::markdown:
      split_markdown(read_text(path, limits), composed);
      return 0;
    case DocumentKind::html:
      split_html(read_text(path, limits), composed);
      return 0;
    case DocumentKind::text:
      composed({"", read_text(path, limits), ""});
      break;
  }
  return 0;
}

std::vector<DocumentFile> expand_documents(const std::vector<std::string>& docs) {
  constexpr std::array<std::string_view, 12> kReadable = {".txt",    ".text", ".md",    ".markdown",
                                                          ".html",   ".htm",  ".xhtml", ".jsonl",
                                                          ".ndjson", ".csv",  ".tsv",   ".pdf"};
  std::vector<DocumentFile> files;
  for (const std::string& name : docs) {
    std::error_code error;
    const fs::path path(name);
    if (!fs::is_directory(path, error)) {
      if (!fs::exists(path, error)) {
        fail(ErrorKind::usage, name, "there is no such file or folder");
      }
      files.push_back({fs::weakly_canonical(path), name});
      continue;
    }
    const size_t first = files.size();
    for (const fs::path& file : files_below(path, Unreadable::skip)) {
      if (std::find(kReadable.begin(), kReadable.end(), lower_extension(file)) != kReadable.end()) {
        files.push_back({fs::weakly_canonical(file), file.lexically_normal()});
      }
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  // A file that two arguments name is one document.
  std::vector<DocumentFile> unique;
  std::vector<fs::path> seen;
  for (DocumentFile& file : files) {
    const auto place = std::lower_bound(seen.begin(), seen.end(), file.path);
    if (place == seen.end() || *place != file.path) {
      seen.insert(place, file.path);
      unique.push_back(std::move(file));
    }
  }
  return unique;
}

}  // namespace heed
