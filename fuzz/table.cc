#include "data/table.h"

#include "fuzz/target.h"

/// Any bytes as CSV, TSV and JSON lines, by the first byte; every row is read.
HEED_FUZZ_TARGET(table) {
  using namespace heed;
  const uint8_t kind = input.empty() ? 0 : static_cast<uint8_t>(input[0]) % 3;
  const std::string endings[] = {".csv", ".tsv", ".jsonl"};
  fuzz::with_file(input.substr(input.empty() ? 0 : 1), endings[kind],
                  [&](const std::filesystem::path& path) {
                    fuzz::expect_error_or_success([&] {
                      const auto table = open_table(path, {"text", "label"});
                      std::vector<std::string> values;
                      while (table->next(values)) {
                      }
                    });
                  });
}
