#include "io/toml.h"

#include "fuzz/target.h"

/// Any bytes as TOML.
HEED_FUZZ_TARGET(toml) {
  using namespace heed;
  fuzz::expect_error_or_success([&] { parse_toml(input, "input").dump(); });
}
