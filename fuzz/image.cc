#include "fuzz/target.h"
#include "heed/io.h"

/// Any bytes as a PNG, JPEG, PGM or PPM.
HEED_FUZZ_TARGET(image) {
  using namespace heed;
  fuzz::expect_error_or_success([&] { decode_image(input, "input", 3); });
}
