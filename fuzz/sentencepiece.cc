#include "fuzz/target.h"
#include "text/spm.h"

/// Any bytes as the protobuf of a SentencePiece .model: heed's own reader, and what opens the file
/// for use.
HEED_FUZZ_TARGET(sentencepiece) {
  using namespace heed;
  fuzz::expect_error_or_success([&] { text::read_sentencepiece(input, "input"); });
  fuzz::with_file(input, ".model", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] { fuzz::encode_and_decode(Tokenizer::load(path)); });
  });
}
