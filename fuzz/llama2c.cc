#include "models/llama2c.h"

#include "fuzz/target.h"
#include "heed/models.h"

/// Any bytes as a llama2.c checkpoint (.bin), read to the last weight.
HEED_FUZZ_TARGET(llama2c) {
  using namespace heed;
  fuzz::with_file(input, ".bin", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] { load_model(path); });
  });
}
