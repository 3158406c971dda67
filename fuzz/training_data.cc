#include "fuzz/target.h"
#include "heed/data.h"

/// Any bytes as questions with passages (FiD) or queries with texts, by the first byte.
HEED_FUZZ_TARGET(training_data) {
  using namespace heed;
  const int kind = input.empty() ? 0 : static_cast<unsigned char>(input[0]) % 4;
  fuzz::with_file(input.substr(input.empty() ? 0 : 1), kind == 1 ? ".json" : ".jsonl",
                  [&](const std::filesystem::path& path) {
                    fuzz::expect_error_or_success([&] {
                      if (kind < 2) {
                        read_fid(path.native());
                      } else if (kind == 2) {
                        read_retrieval(path.native());
                      } else {
                        load_numbers(path.native());
                      }
                    });
                  });
}
