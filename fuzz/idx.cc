#include "fuzz/target.h"
#include "heed/io.h"

/// Any bytes as an IDX file, plain or gzipped.
HEED_FUZZ_TARGET(idx) {
  using namespace heed;
  fuzz::with_file(input, ".idx", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] { load_idx(path); });
  });
}
