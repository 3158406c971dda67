#include <cstdlib>

#include "fuzz/target.h"
#include "heed/models.h"
#include "heed/text.h"

/// Any bytes as a .gguf model: its vocabulary with a text through it and back, its chat template,
/// and the model with all its weights.
HEED_FUZZ_TARGET(gguf_model) {
  using namespace heed;
  fuzz::with_file(input, "-model.gguf", [](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] {
      const Tokenizer tokenizer = Tokenizer::load(path);
      for (const std::string_view text : {"", "the cat  sat\n", "\xff\xfe a"}) {
        const std::vector<TokenId> ids = tokenizer.encode_ids(text);
        for (const TokenId id : ids) {
          if (id < 0 || id >= tokenizer.vocab_size()) {
            std::abort();
          }
        }
        tokenizer.decode(ids);
      }
    });
    fuzz::expect_error_or_success([&] { ChatTemplate::find(path); });
    fuzz::expect_error_or_success([&] { load_model(path); });
  });
}
