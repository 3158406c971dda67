#include "io/gzip.h"

#include <cstdlib>

#include "fuzz/target.h"

/// Any bytes as gzip: the same result whether they come at once or in pieces.
HEED_FUZZ_TARGET(gzip) {
  using namespace heed;
  constexpr uint64_t kLimit = 1 << 20;
  fuzz::expect_error_or_success([&] {
    const std::string whole = gunzip(input, "input", kLimit);
    GzipReader reader("input");
    std::string pieces;
    char buffer[97];
    for (std::string_view rest = input;;) {
      const size_t made = reader.read(rest, buffer, sizeof buffer);
      pieces.append(buffer, made);
      if (made == 0 && rest.empty()) {
        break;
      }
    }
    reader.finish();
    if (pieces != whole) {
      std::abort();
    }
  });
}
