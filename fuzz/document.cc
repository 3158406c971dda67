#include "fuzz/target.h"
#include "retrieval/documents.h"

/// Any bytes as a document to index, by the first byte: Markdown, HTML, text or a table.
HEED_FUZZ_TARGET(document) {
  using namespace heed;
  const std::string endings[] = {".md", ".html", ".txt", ".jsonl", ".csv"};
  const size_t kind = input.empty() ? 0 : static_cast<unsigned char>(input[0]) % 5;
  fuzz::with_file(input.substr(input.empty() ? 0 : 1), endings[kind],
                  [&](const std::filesystem::path& path) {
                    fuzz::expect_error_or_success([&] {
                      read_document(
                          path, {}, [](const Section&) {}, [](const std::string&) {});
                    });
                  });
}
