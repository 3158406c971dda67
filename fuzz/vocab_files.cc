#include <algorithm>
#include <cstdlib>

#include "fuzz/target.h"
#include "heed/text.h"

/// GPT-2's two files: vocab.json, a NUL and merges.txt. If they open, a text goes through and back.
HEED_FUZZ_TARGET(vocab_files) {
  using namespace heed;
  const size_t border = std::min(input.find('\0'), input.size());
  const std::string_view merges = input.substr(std::min(border + 1, input.size()));
  fuzz::with_file(input.substr(0, border), "-vocab.json", [&](const std::filesystem::path& path) {
    const std::filesystem::path beside = path.parent_path() / "merges.txt";
    fuzz::write_input(beside, merges);
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
  });
}
