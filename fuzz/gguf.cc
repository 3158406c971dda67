#include "io/gguf.h"

#include <cstdlib>
#include <limits>

#include "fuzz/target.h"
#include "heed/ops.h"

/// Any bytes as a .gguf file; every value is asked for in every type, every tensor is read.
HEED_FUZZ_TARGET(gguf) {
  using namespace heed;
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  fuzz::with_file(input, ".gguf", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] {
      const GgufFile file(path);
      for (const auto& [key, value] : file.values()) {
        const std::function<void()> reads[] = {
            [&, k = key] { file.string(k); },  [&, k = key] { file.integer(k, kLow, kHigh); },
            [&, k = key] { file.boolean(k); }, [&, k = key] { file.number(k, -1e300, 1e300); },
            [&, k = key] { file.strings(k); }, [&, k = key] { file.integers(k, kLow, kHigh); },
            [&, k = key] { file.numbers(k); },
        };
        for (const auto& read : reads) {
          fuzz::expect_error_or_success(read);
        }
      }
      uint64_t bytes = 0;
      for (const auto& [name, tensor] : file.tensors()) {
        const auto* first = static_cast<const uint8_t*>(tensor.raw());
        for (int64_t i = 0; i < tensor.bytes(); ++i) {
          bytes += first[i];
        }
        dequantize(tensor);
      }
      check_files_intact();
      if (bytes == ~uint64_t{0}) {
        std::abort();  // never; keeps the reads
      }
    });
  });
}
