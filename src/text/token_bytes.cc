#include "text/token_bytes.h"

#include "base/parallel.h"
#include "text/decoder.h"
#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

constexpr int64_t kTokensATile = 4096;

/// A token that decodes to one letter wherever it stands: what comes behind it is in the middle.
std::optional<TokenId> letter_token(const Tokenizer& tokenizer) {
  for (const char* letter : {"a", "e", "s", "0", "A", "x"}) {
    const auto id = tokenizer.token_to_id(letter);
    if (id && tokenizer.decode(std::vector<TokenId>{*id}, false) == letter) {
      return id;
    }
  }
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string token = tokenizer.id_to_token(id);
    if (token.size() == 1 && !tokenizer.is_special(id) &&
        tokenizer.decode(std::vector<TokenId>{id}, false) == token) {
      return id;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> token_bytes(const Tokenizer& tokenizer) {
  const auto count = tokenizer.vocab_size();
  std::vector<std::string> bytes(static_cast<size_t>(count));
  const std::optional<TokenId> letter = letter_token(tokenizer);
  std::vector<TokenId> before;
  if (letter) {
    before.push_back(*letter);
  }
  const std::string prefix = tokenizer.decode(before, false);
  // <0xE1> is a byte only where the decoder says so.
  const auto byte_token = tokenizer.token_to_id("<0x41>");
  const bool has_byte_tokens =
      byte_token && tokenizer.decode(std::vector<TokenId>{*byte_token}, false) == "A";
  parallel_ranges(count, kTokensATile, [&](int64_t begin, int64_t end) {
    std::vector<TokenId> ids = before;
    ids.push_back(0);
    for (int64_t i = begin; i < end; ++i) {
      const auto id = static_cast<TokenId>(i);
      const std::string token = tokenizer.id_to_token(id);
      if (token.empty() || tokenizer.is_special(id)) {
        continue;
      }
      std::string& text = bytes[static_cast<size_t>(i)];
      const int byte = has_byte_tokens ? byte_token_value(token) : -1;
      if (byte >= 0) {
        text.assign(1, static_cast<char>(byte));
        continue;
      }
      ids.back() = id;
      text = tokenizer.decode(ids, false);
      text.erase(0, text.starts_with(prefix) ? prefix.size() : 0);
    }
  });
  return bytes;
}

}  // namespace heed::text
