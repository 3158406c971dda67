#include "fuzz/target.h"
#include "heed/models.h"

/// Any bytes as a model's config.json: refused, or a model is built of it whose weights are all
/// missing, which is an error too. Made-up weights would take seconds for the sizes that a
/// configuration leaves to the usual ones.
HEED_FUZZ_TARGET(config) {
  using namespace heed;
  if (input.size() > 4096) {
    return;
  }
  fuzz::expect_error_or_success([&] { build_model(input, {}, "model.safetensors"); });
}
