#include "io/toml.h"

#include "fuzz/target-inl.h"

/// Any bytes as TOML.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heed;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_success([&] { parse_toml(text, "input").dump(); });
  return 0;
}
