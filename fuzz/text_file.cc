#include "fuzz/target.h"
#include "heed/data.h"

/// Any bytes as a plain or gzipped text file of training data.
HEED_FUZZ_TARGET(text_file) {
  using namespace heed;
  fuzz::with_file(input, ".txt", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] { read_texts(path.native(), {}, 1 << 20); });
  });
}
