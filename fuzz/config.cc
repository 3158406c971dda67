#include "fuzz/target.h"
#include "heed/models.h"

/// Any bytes as a model's config.json: refused, or a model of at most a few megabytes is built.
HEED_FUZZ_TARGET(config) {
  using namespace heed;
  if (input.size() > 4096) {
    return;
  }
  fuzz::expect_error_or_success([&] { create_model(std::string(input), 1); });
}
