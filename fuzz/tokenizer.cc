#include "fuzz/target.h"

/// The first byte chooses: a tokenizer.json, a vocab.txt or llama2.c's tokenizer .bin. What follows
/// is the file; if it opens, texts go through it and back.
HEED_FUZZ_TARGET(tokenizer) {
  using namespace heed;
  const int kind = input.empty() ? 0 : static_cast<unsigned char>(input[0]) % 3;
  const std::string_view file = input.substr(input.empty() ? 0 : 1);
  const std::string endings[] = {".json", ".txt", ".bin"};
  fuzz::expect_error_or_success([&] {
    if (kind == 0) {
      fuzz::encode_and_decode(Tokenizer::from_json(file, "input"));
      return;
    }
    fuzz::with_file(file, endings[kind], [&](const std::filesystem::path& path) {
      fuzz::encode_and_decode(Tokenizer::load(path));
    });
  });
}
