#include "heed/image.h"

#include "fuzz/target-inl.h"

/// Any bytes as a PNG, JPEG, PGM or PPM.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heed;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_success([&] { decode_image(bytes, "input", 3); });
  return 0;
}
