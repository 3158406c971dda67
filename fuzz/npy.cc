#include "fuzz/target.h"
#include "heed/io.h"

/// Any bytes as a .npy file; what is accepted survives being saved and loaded again.
HEED_FUZZ_TARGET(npy) {
  using namespace heed;
  fuzz::with_file(input, ".npy", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] {
      const Tensor array = load_npy(path);
      const std::filesystem::path again = path.parent_path() / "again.npy";
      save_npy(again, array);
      if (load_npy(again).shape() != array.shape()) {
        std::abort();
      }
    });
  });
}
