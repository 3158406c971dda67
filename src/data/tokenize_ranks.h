#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// How the ranks of a run share out tokenising: each encodes its part of every batch of texts, and
/// all get all ids. `gather` gives the bytes of every rank, in order.
struct TokenizeShare {
  int rank = 0;
  int ranks = 1;
  std::function<std::vector<std::string>(std::string_view)> gather;
};

/// Texts are tokenised together while one of these lives, on every rank in the same order.
class TokenizeTogether {
 public:
  explicit TokenizeTogether(TokenizeShare share);
  ~TokenizeTogether();
  TokenizeTogether(const TokenizeTogether&) = delete;
  TokenizeTogether& operator=(const TokenizeTogether&) = delete;
};

/// Null where this process works alone.
const TokenizeShare* tokenize_share();

/// Whether all ranks have `made` something of this key before. Throws on all where the key, and so
/// data or tokenizer, is not the same on every rank.
bool all_have(bool made, uint64_t key, std::string_view data);

}  // namespace heed
