#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "heed/io.h"

/// Any bytes as a .safetensors file; what is accepted must be readable to its last byte.
HEED_FUZZ_TARGET(safetensors) {
  using namespace heed;
  fuzz::with_file(input, ".safetensors", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] {
      uint64_t bytes = 0;
      for (const auto& [name, tensor] : load_safetensors(path)) {
        const auto* first = static_cast<const uint8_t*>(tensor.raw());
        for (int64_t i = 0; i < tensor.bytes(); ++i) {
          bytes += first[i];
        }
      }
      check_files_intact();
      if (bytes == ~uint64_t{0}) {
        std::abort();  // never; keeps the reads
      }
      safetensors_metadata(path);
    });
  });
}
