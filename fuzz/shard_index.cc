#include "fuzz/target.h"
#include "heed/io.h"

/// Any bytes as model.safetensors.index.json of a folder with one shard: nothing outside it is
/// read.
HEED_FUZZ_TARGET(shard_index) {
  using namespace heed;
  fuzz::with_file("", ".unused", [&](const std::filesystem::path& unused) {
    const std::filesystem::path folder = unused.parent_path();
    fuzz::write_input(folder / "model.safetensors.index.json", input);
    if (!std::filesystem::exists(folder / "a.safetensors")) {
      save_safetensors(folder / "a.safetensors", {{"a", Tensor::zeros({1})}});
    }
    fuzz::expect_error_or_success([&] { load_weights(folder); });
  });
}
