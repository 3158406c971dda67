#include <algorithm>

#include "fuzz/target.h"

/// GPT-2's two files: vocab.json, a NUL and merges.txt. If they open, a text goes through and back.
HEED_FUZZ_TARGET(vocab_files) {
  using namespace heed;
  const size_t border = std::min(input.find('\0'), input.size());
  const std::string_view merges = input.substr(std::min(border + 1, input.size()));
  fuzz::with_file(input.substr(0, border), "-vocab.json", [&](const std::filesystem::path& path) {
    const std::filesystem::path beside = path.parent_path() / "merges.txt";
    fuzz::write_input(beside, merges);
    fuzz::expect_error_or_success([&] { fuzz::encode_and_decode(Tokenizer::load(path)); });
  });
}
