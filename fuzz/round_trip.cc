#include <cstdlib>

#include "fuzz/target.h"
#include "heed/text.h"

/// Any bytes as a text: a byte-level tokenizer gives every byte back, whole and token by token, and
/// the ids of encode() are those of encode_ids().
HEED_FUZZ_TARGET(round_trip) {
  using namespace heed;
  static const Tokenizer tokenizer = [] {
    const std::string_view texts[] = {"the cat sat on the mat, and the dog sat on the cat. 12 1200",
                                      "우리는 역사를 배우고 역사는 우리를 배운다"};
    return train_tokenizer(texts, {.vocab_size = 320, .min_frequency = 1, .special_tokens = {}});
  }();
  const std::vector<TokenId> ids = tokenizer.encode_ids(input, false);
  StreamDecoder stream(tokenizer, false);
  std::string pieces;
  for (const TokenId id : ids) {
    pieces += stream.push(id);
  }
  pieces += stream.finish();
  if (tokenizer.decode(ids, false) != input || pieces != input ||
      tokenizer.encode(input, false).ids != ids) {
    std::abort();
  }
}
