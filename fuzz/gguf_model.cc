#include "fuzz/target.h"
#include "heed/models.h"

/// Any bytes as a .gguf model: its vocabulary with a text through it and back, its chat template,
/// and the model with all its weights.
HEED_FUZZ_TARGET(gguf_model) {
  using namespace heed;
  fuzz::with_file(input, "-model.gguf", [](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] { fuzz::encode_and_decode(Tokenizer::load(path)); });
    fuzz::expect_error_or_success([&] { ChatTemplate::find(path); });
    fuzz::expect_error_or_success([&] { load_model(path); });
  });
}
