#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// A piece of a file with text of its own: a section, a page, a row.
struct Section {
  std::string title;     ///< heading, or the row's title, as short_title() leaves it; may be empty
  std::string text;      ///< UTF-8, Hangul composed
  std::string location;  ///< "page 3", "row 12"; empty for the whole file
};

enum class DocumentKind { text, markdown, html, table, pdf };

/// By the name's ending; `text` where that says nothing.
DocumentKind document_kind(const std::filesystem::path& path);

struct DocumentLimits {
  int64_t max_bytes = int64_t{256} << 20;  ///< of a file that is not a table
  double pdf_seconds = 60;                 ///< for pdftotext to turn one PDF into text
};

/// Calls `visit` with every section of a file that has text, in order, and returns the number of
/// rows that were left out because they could not be read, each named through `complain`.
///
/// Tables (.jsonl, .ndjson, .csv, .tsv) are read row by row, in constant memory: `text` is the
/// field or column of that name (or `contents`, `content`, `body`, `passage`; without a header all
/// columns), `title` that of that name. Throws kind data where the file is empty, binary, too large
/// or not UTF-8.
int64_t read_document(const std::filesystem::path& path, const DocumentLimits& limits,
                      const std::function<void(Section)>& visit,
                      const std::function<void(const std::string&)>& complain);

/// A file to index: where it is and how it was named.
struct DocumentFile {
  std::filesystem::path path;  ///< absolute, canonical
  std::string name;            ///< as it was given
};
/// The files that `docs` names: folders give every regular file of a kind that can be read, at any
/// depth, sorted; hidden ones are left out. Throws where one of `docs` does not exist.
std::vector<DocumentFile> expand_documents(const std::vector<std::string>& docs);

/// Text and headings of a Markdown file: sections by heading, `title` the path of headings.
void split_markdown(std::string_view markdown, const std::function<void(Section)>& visit);
/// The text that a browser would show of an HTML page, by heading. Scripts, styles and templates
/// are left out, entities replaced; anything malformed is read as leniently as browsers do.
void split_html(std::string_view html, const std::function<void(Section)>& visit);

/// A title or heading, truncated after about a kilobyte: it is repeated in every chunk below it.
std::string short_title(std::string title);

/// Composes decomposed Hangul (jamo, as macOS writes it); leaves other text as it is.
std::string compose_hangul(std::string text);

}  // namespace heed
